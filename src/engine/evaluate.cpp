#include "engine/evaluate.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/text.h"
#include "engine/reference_file.h"

namespace lithe::engine {
namespace {

using Json = nlohmann::ordered_json;

/// What one window adds to an Evaluation.
struct WindowResult {
  Moments nll, delta;
  std::vector<float> kl;
  std::int64_t agreements = 0;
};

void add(Evaluation& total, const WindowResult& part) {
  ++total.windows;
  total.nll.add(part.nll);
  total.delta.add(part.delta);
  total.kl.insert(total.kl.end(), part.kl.begin(), part.kl.end());
  total.agreements += part.agreements;
}

Json to_json(const Moments& m) {
  return Json::array({m.count, m.sum, m.squares});
}
Moments moments(const Json& json) {
  return {json.at(0).get<std::int64_t>(), json.at(1).get<double>(), json.at(2).get<double>()};
}

/// The finished windows of an interrupted run: a line that says what is measured, then a line per window. Lines are
/// only appended, so that a killed run loses at most the window it was in; a torn last line is cut off.
class StateFile {
 public:
  /// invalid_argument when the file belongs to another run.
  static Result<StateFile> open(const std::string& path, const Json& what) {
    const std::string header =
        what.dump(-1, ' ', false, Json::error_handler_t::replace);  // paths are any bytes
    StateFile out;
    out.path_ = path;
    std::ifstream in(path);
    std::string line;
    std::size_t good = 0;
    if (in && std::getline(in, line)) {
      if (line != header) return invalid("{} holds another run: give a new file, or delete it", path);
      good = line.size() + 1;
      while (std::getline(in, line) && !in.eof() && out.take(line)) good += line.size() + 1;
      in.close();
      std::error_code error;
      std::filesystem::resize_file(path, good, error);
      if (error) return io_error("{}: {}", path, error.message());
    }
    out.file_.open(path, std::ios::app);
    if (good == 0) out.file_ << header << '\n';
    if (!out.file_.flush()) return io_error("cannot write {}", path);
    return out;
  }

  const std::vector<WindowResult>& windows() const { return windows_; }

  Status append(const WindowResult& w) {
    const Json line = {
        {"nll", to_json(w.nll)}, {"delta", to_json(w.delta)}, {"kl", w.kl}, {"agree", w.agreements}};
    file_ << line.dump() << '\n';
    if (!file_.flush()) return io_error("cannot write {}", path_);
    return {};
  }

 private:
  bool take(const std::string& line) {
    try {
      const Json json = Json::parse(line);
      windows_.push_back({moments(json.at("nll")), moments(json.at("delta")),
                          json.at("kl").get<std::vector<float>>(), json.at("agree").get<std::int64_t>()});
    } catch (const nlohmann::json::exception&) {
      return false;
    }
    return true;
  }

  std::string path_;
  std::ofstream file_;
  std::vector<WindowResult> windows_;
};

const char* protocol_name(Protocol protocol) {
  return protocol == Protocol::half ? "half" : "full";
}

Json describe_run(const LoadedModel& model, const EvaluateOptions& options, std::uint64_t hash) {
  const models::ModelOptions& how = model.model().options();
  return {{"magic", "lithe-eval-1"},
          {"model", model.info().path},
          {"file_bytes", model.info().file_bytes},
          {"isa", model.info().isa},
          {"precision", how.precision == models::Precision::f32 ? "f32" : "auto"},
          {"attention", static_cast<int>(how.attention)},
          {"kv", block_format(how.kv_dtype).name},
          {"protocol", protocol_name(options.protocol)},
          {"ctx", options.ctx},
          {"reference", options.reference},
          {"text_hash", hash}};
}

/// Everything a run of windows needs.
struct Run {
  LoadedModel& model;
  kvcache::PagePool& pool;
  ReferenceWriter* writer = nullptr;
  const ReferenceFile* reference = nullptr;
  std::int64_t next_row = 0;  // of the reference
  std::vector<float> scratch;

  Result<WindowResult> score(const Window& window) {
    WindowResult out;
    const auto count = static_cast<std::int64_t>(window.tokens.size());
    const auto visit = [&](std::int64_t position, std::span<float> logits) -> Status {
      LITHE_ASSIGN_OR_RETURN(const LogSum sum, log_sum(logits, model.kernels(), scratch));
      const auto target = static_cast<std::size_t>(window.tokens[static_cast<std::size_t>(position + 1)]);
      const double nll = sum.value - static_cast<double>(logits[target]);
      out.nll.add(nll);
      if (writer != nullptr) LITHE_RETURN_IF_ERROR(writer->add(logits, sum, nll));
      if (reference != nullptr) {
        if (next_row >= reference->rows()) return internal("the reference has no row {}", next_row);
        const ReferenceRow row = reference->row(next_row++);
        out.delta.add(nll - row.nll);
        out.kl.push_back(static_cast<float>(kl_divergence(row, logits, sum)));
        out.agreements += row.argmax == sum.argmax ? 1 : 0;
      }
      return {};
    };
    LITHE_RETURN_IF_ERROR(
        for_each_logits(model.model(), pool, window.tokens, window.first, count - 1, visit));
    return out;
  }
};

/// forward() sees every token but a window's last, whose logit is read all the same.
Status check_ids(const LoadedModel& model, const std::vector<Window>& windows) {
  const std::int64_t vocab = model.model().spec().vocab;
  for (const Window& window : windows) {
    for (const std::int32_t id : window.tokens) {
      if (id >= 0 && id < vocab) continue;
      return invalid("the text holds token {} ({}), but the model has rows for {} tokens only", id,
                     in_quotes(model.tokenizer().written(id)), vocab);
    }
  }
  return {};
}

/// Predictions scored in a window: all windows have the same number.
std::int64_t scored(const Window& window) {
  return static_cast<std::int64_t>(window.tokens.size()) - 1 - window.first;
}

}  // namespace

double Evaluation::perplexity() const {
  return std::exp(nll.mean());
}

double Evaluation::kl_mean() const {
  double sum = 0;
  for (const float x : kl) sum += static_cast<double>(x);
  return kl.empty() ? 0 : sum / static_cast<double>(kl.size());
}

double Evaluation::kl_quantile(double q) const {
  if (kl.empty()) return 0;
  std::vector<float> sorted = kl;
  const auto at = static_cast<std::size_t>(std::lround(q * static_cast<double>(sorted.size() - 1)));
  std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(at), sorted.end());
  return static_cast<double>(sorted[at]);
}

Result<Evaluation> evaluate(LoadedModel& model, std::string_view text, const EvaluateOptions& options,
                            OnWindow on_window) {
  LITHE_RETURN_IF_ERROR(check_writes_text(model));
  if (!options.state.empty() && !options.save_reference.empty()) {
    return invalid("--save-logits cannot go on where an earlier run stopped: leave out --state");
  }
  LITHE_ASSIGN_OR_RETURN(std::vector<Window> windows,
                         make_windows(model.tokenizer(), text, options.protocol, options.ctx));
  if (options.max_windows > 0 && static_cast<std::size_t>(options.max_windows) < windows.size()) {
    windows.resize(static_cast<std::size_t>(options.max_windows));
  }
  LITHE_RETURN_IF_ERROR(check_ids(model, windows));
  const auto total = static_cast<std::int64_t>(windows.size());
  const ScoringKey key{protocol_name(options.protocol), options.ctx, model.model().spec().vocab, total,
                       text_hash(text)};
  LITHE_ASSIGN_OR_RETURN(
      kvcache::PagePool pool,
      make_pool_that_fits(model, options.ctx, 1, scoring_step(model.model(), options.ctx)));
  Run run{model, pool, nullptr, nullptr, 0, {}};

  std::optional<ReferenceFile> reference;
  if (!options.reference.empty()) {
    LITHE_ASSIGN_OR_RETURN(reference, ReferenceFile::open(options.reference, key));
    run.reference = &*reference;
  }
  std::optional<ReferenceWriter> writer;
  if (!options.save_reference.empty()) {
    auto created = ReferenceWriter::create(options.save_reference, model.info().path, key);
    if (!created.ok()) return std::move(created).status();
    writer.emplace(std::move(created).value());
    run.writer = &*writer;
  }
  std::optional<StateFile> state;
  Evaluation evaluation;
  if (!options.state.empty()) {
    LITHE_ASSIGN_OR_RETURN(state,
                           StateFile::open(options.state, describe_run(model, options, key.text_hash)));
    for (const WindowResult& done : state->windows()) {
      if (evaluation.windows == total) break;
      const std::int64_t count = scored(windows.front());
      const std::int64_t compared = reference ? count : 0;
      if (done.nll.count != count || done.delta.count != compared ||
          static_cast<std::int64_t>(done.kl.size()) != compared) {
        return corrupt(
            "{}: window {} holds other counts than the {} tokens scored: give a new file, or delete it",
            options.state, evaluation.windows + 1, count);
      }
      add(evaluation, done);
    }
    run.next_row = evaluation.windows * scored(windows.front());
    evaluation.resumed = evaluation.windows;
  }
  while (evaluation.windows < total) {
    LITHE_ASSIGN_OR_RETURN(const WindowResult result,
                           run.score(windows[static_cast<std::size_t>(evaluation.windows)]));
    if (state) LITHE_RETURN_IF_ERROR(state->append(result));
    add(evaluation, result);
    if (!on_window(evaluation, total))
      return cancelled("stopped after {} of {} windows", evaluation.windows, total);
  }
  if (writer) LITHE_RETURN_IF_ERROR(writer->commit());
  return evaluation;
}

Status write_logits(LoadedModel& model, std::span<const std::int32_t> tokens, const std::string& path) {
  LITHE_RETURN_IF_ERROR(check_writes_text(model));
  const std::int64_t vocab = model.model().spec().vocab;
  const auto count = static_cast<std::int64_t>(tokens.size());
  if (count == 0) return invalid("no tokens given");
  for (const std::int32_t id : tokens) {
    if (id < 0 || id >= vocab) return invalid("token {}: ids lie in [0, {})", id, vocab);
  }
  LITHE_ASSIGN_OR_RETURN(kvcache::PagePool pool,
                         make_pool_that_fits(model, count, 1, scoring_step(model.model(), count)));
  LITHE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  // NumPy's format 1.0: magic, version, header length, a Python literal padded so that the data is aligned to 64.
  std::string header =
      fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", count, vocab);
  while ((10 + header.size() + 1) % 64 != 0) header += ' ';
  header += '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(header.size() & 0xff);
  head += static_cast<char>(header.size() >> 8);
  LITHE_RETURN_IF_ERROR(file.write(head + header));
  LITHE_RETURN_IF_ERROR(for_each_logits(
      model.model(), pool, tokens, 0, count,
      [&](std::int64_t, std::span<float> logits) { return file.write(std::as_bytes(logits)); }));
  return file.commit();
}

}  // namespace lithe::engine
