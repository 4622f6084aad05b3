// lithe bench: the table that users of llama-bench know, with what the machine could do at best beside it.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "base/cpu.h"
#include "base/text.h"
#include "command.h"
#include "console.h"
#include "engine/measure.h"
#include "model_flags.h"
#include "values.h"

namespace lithe::app {
namespace {

struct BenchFlags {
  std::string models, depths = "0", rows = "1", attention = "flash", kv_types = "auto", batch = "2048",
                      output = "md", precision = "auto";
  std::optional<std::string> prompts, generates, threads, ubatch;
  int repetitions = 5;
  bool kv_cache = true;
};

/// One way of loading a model, and the tests to run on it.
struct Setup {
  ModelFlags model;
  std::string attention, kv_type;
};

struct Row {
  ModelInfo info;
  std::string attention, kv_type, precision;
  std::int64_t batch = 0, ubatch = 0;
  engine::SpeedTest test;
  engine::Speed speed;
  engine::Ceilings ceilings;
  engine::ArithmeticCeiling arithmetic;
  std::string time;
};

std::string test_name(const engine::SpeedTest& test) {
  std::string name = test.prompt > 0 ? fmt::format("pp{}", test.prompt) : fmt::format("tg{}", test.generate);
  if (test.depth > 0) name += fmt::format("@d{}", test.depth);
  if (test.rows > 1) name += fmt::format(" x{}", test.rows);
  if (!test.kv_cache) name += " no-kv";
  return name;
}

double mean(const std::vector<double>& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return values.empty() ? 0 : sum / static_cast<double>(values.size());
}

double deviation(const std::vector<double>& values) {
  if (values.size() < 2) return 0;
  const double m = mean(values);
  double sum = 0;
  for (const double v : values) sum += (v - m) * (v - m);
  return std::sqrt(sum / static_cast<double>(values.size() - 1));
}

double share(double reached, double ceiling) {
  return ceiling > 0 ? reached / ceiling : 0;
}

std::string model_title(const ModelInfo& info) {
  return fmt::format("{} {}", info.name.empty() ? info.family : printable(info.name), info.weight_type);
}

// --- output -------------------------------------------------------------------------------------------------------------

std::string md_head(const Row& first) {
  const auto& c = first.ceilings;
  std::string out = fmt::format("Machine: {}, class {}, {} on {} threads\n", cpu_model(),
                                engine::machine_class(), first.info.isa, first.info.threads);
  out += fmt::format("Ceilings: read {:.1f} GB/s (DRAM), {:.1f} GB/s (a buffer of {}); f32 {:.0f} GFLOP/s",
                     c.dram_gbs, c.resident_gbs, human_bytes(static_cast<double>(c.resident_bytes)),
                     c.f32_gflops);
  if (c.bf16_gflops > 0) out += fmt::format(", bf16 {:.0f} GFLOP/s", c.bf16_gflops);
  if (c.int8_gops > 0) out += fmt::format(", int8 {:.0f} Gop/s", c.int8_gops);
  out += "\n\n";
  out +=
      "| model | size | params | threads | attention | kv | test | t/s | spread | GB/s | of DRAM | Gop/s | "
      "of peak "
      "| attention bytes |\n";
  out += "|---|---:|---:|---:|---|---|---|---:|---:|---:|---:|---:|---:|---:|\n";
  return out;
}

std::string md_row(const Row& row) {
  const auto rates = row.speed.rates();
  const auto [least, most] = std::minmax_element(rates.begin(), rates.end());
  const double median = row.speed.median_rate();
  return fmt::format(
      "| {} | {} | {} | {} | {} | {} | {} | {:.2f} | ±{:.1f}% | {:.1f} | {:.0f}% | {:.0f} | {:.0f}% {} | {} "
      "|\n",
      model_title(row.info), human_bytes(static_cast<double>(row.info.file_bytes)),
      human_count(static_cast<double>(row.info.parameters)), row.info.threads, row.attention, row.kv_type,
      test_name(row.test), median, 50 * (*most - *least) / median, row.speed.bandwidth_gbs(),
      100 * share(row.speed.bandwidth_gbs(), row.ceilings.dram_gbs), row.speed.gops(),
      100 * share(row.speed.gops(), row.arithmetic.gops), row.arithmetic.name,
      human_bytes(static_cast<double>(row.speed.peak_attention)));
}

nlohmann::ordered_json json_row(const Row& row) {
  std::vector<std::int64_t> nanoseconds;
  nanoseconds.reserve(row.speed.seconds.size());
  for (const double s : row.speed.seconds) nanoseconds.push_back(static_cast<std::int64_t>(s * 1e9));
  const auto rates = row.speed.rates();
  return {
      {"model_filename", row.info.path},
      {"model_type", model_title(row.info)},
      {"model_size", row.info.file_bytes},
      {"model_n_params", row.info.parameters},
      {"cpu_info", cpu_model()},
      {"machine_class", engine::machine_class()},
      {"isa", row.info.isa},
      {"n_threads", row.info.threads},
      {"n_batch", row.batch},
      {"n_ubatch", row.ubatch},
      {"type_k", row.kv_type},
      {"type_v", row.kv_type},
      {"precision", row.precision},
      {"attention", row.attention},
      {"kv_cache", row.test.kv_cache},
      {"n_prompt", row.test.prompt},
      {"n_gen", row.test.generate},
      {"n_depth", row.test.depth},
      {"npl", row.test.rows},
      {"test_time", row.time},
      {"avg_ns", static_cast<std::int64_t>(mean(row.speed.seconds) * 1e9)},
      {"stddev_ns", static_cast<std::int64_t>(deviation(row.speed.seconds) * 1e9)},
      {"avg_ts", mean(rates)},
      {"stddev_ts", deviation(rates)},
      {"median_ts", row.speed.median_rate()},
      {"samples_ns", nanoseconds},
      {"samples_ts", rates},
      {"bandwidth_gbs", row.speed.bandwidth_gbs()},
      {"gops", row.speed.gops()},
      {"share_of_bandwidth", share(row.speed.bandwidth_gbs(), row.ceilings.dram_gbs)},
      {"share_of_peak", share(row.speed.gops(), row.arithmetic.gops)},
      {"peak_arithmetic", row.arithmetic.name},
      {"peak_attention_bytes", row.speed.peak_attention},
      {"weight_bytes", row.info.weight_bytes},
      {"ceiling_dram_gbs", row.ceilings.dram_gbs},
      {"ceiling_resident_gbs", row.ceilings.resident_gbs},
      {"ceiling_f32_gflops", row.ceilings.f32_gflops},
      {"ceiling_bf16_gflops", row.ceilings.bf16_gflops},
      {"ceiling_int8_gops", row.ceilings.int8_gops},
  };
}

std::string csv_field(const nlohmann::ordered_json& value) {
  const std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? std::string("\"\"") : std::string(1, c);
  return out + "\"";
}

/// Rows as they come (md, csv), or one array at the end (json).
class Table {
 public:
  explicit Table(std::string format) : format_(std::move(format)) {}

  Status add(const Row& row) {
    if (format_ == "json") {
      rows_.push_back(json_row(row));
      return {};
    }
    std::string out;
    if (format_ == "md") {
      if (count_++ == 0) out = md_head(row);
      return print(out + md_row(row));
    }
    const auto json = json_row(row);
    std::string head, line;
    for (const auto& [key, value] : json.items()) {
      head += (head.empty() ? "" : ",") + key;
      line += (line.empty() ? "" : ",") + csv_field(value);
    }
    if (count_++ == 0) out = head + "\n";
    return print(out + line + "\n");
  }

  Status finish() {
    if (format_ != "json") return {};
    return print(rows_.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n");
  }

 private:
  std::string format_;
  int count_ = 0;
  nlohmann::ordered_json rows_ = nlohmann::ordered_json::array();
};

// --- what to run --------------------------------------------------------------------------------------------------------

struct Planned {
  engine::SpeedTest test;
  std::int64_t batch = 0;  // the -b it belongs to
};

Result<std::vector<Planned>> make_tests(const BenchFlags& flags) {
  constexpr std::int64_t kMost = 1 << 24;
  // As llama-bench: both tests when neither is named, only the named one otherwise.
  const bool neither = !flags.prompts && !flags.generates;
  LITHE_ASSIGN_OR_RETURN(const auto prompts,
                         parse_list("-p", flags.prompts.value_or(neither ? "512" : "0"), 0, kMost));
  LITHE_ASSIGN_OR_RETURN(const auto generates,
                         parse_list("-n", flags.generates.value_or(neither ? "128" : "0"), 0, kMost));
  LITHE_ASSIGN_OR_RETURN(const auto depths, parse_list("-d", flags.depths, 0, kMost));
  LITHE_ASSIGN_OR_RETURN(const auto rows, parse_list("-npl", flags.rows, 1, 4096));
  LITHE_ASSIGN_OR_RETURN(const auto batches, parse_list("-b", flags.batch, 1, kMost));
  // Naive attention over pieces of a prompt is already half way to the chunked one: a comparison of algorithms takes
  // each prompt whole unless told otherwise.
  const bool whole = !flags.ubatch && flags.attention != "flash";
  LITHE_ASSIGN_OR_RETURN(const auto ubatches, parse_list("-ub", flags.ubatch.value_or("512"), 1, kMost));
  std::vector<Planned> tests;
  const auto add = [&](std::int64_t prompt, std::int64_t generate, std::int64_t depth, std::int64_t row_count,
                       std::int64_t batch, std::int64_t ubatch) {
    if (prompt + generate == 0) return;
    const std::int64_t step = std::min(batch, ubatch);
    engine::SpeedTest test;
    test.prompt = prompt, test.generate = generate, test.depth = depth, test.rows = row_count,
    test.step = whole ? std::max(step, prompt) : step;
    test.kv_cache = flags.kv_cache || prompt > 0;
    test.repetitions = flags.repetitions;
    tests.push_back({test, std::max(batch, test.step)});
  };
  for (const std::int64_t batch : batches) {
    for (const std::int64_t ubatch : ubatches) {
      for (const std::int64_t depth : depths) {
        for (const std::int64_t prompt : prompts) add(prompt, 0, depth, 1, batch, ubatch);
        for (const std::int64_t generate : generates) {
          for (const std::int64_t row_count : rows) add(0, generate, depth, row_count, batch, ubatch);
        }
      }
    }
  }
  if (tests.empty()) return invalid("nothing to measure: -p and -n are both 0");
  return tests;
}

std::string now_utc() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  ::gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

/// Ceilings by thread count, measured once each.
using CeilingsByThreads = std::map<int, engine::Ceilings>;

Status run_setup(const BenchFlags& flags, const Setup& setup, const std::vector<Planned>& tests,
                 CeilingsByThreads& known, Table& table) {
  LITHE_ASSIGN_OR_RETURN(const ModelOptions options, setup.model.options());
  LITHE_ASSIGN_OR_RETURN(const std::string path, setup.model.path());
  LITHE_ASSIGN_OR_RETURN(const auto loaded, engine::LoadedModel::load(path, options));
  const int threads = loaded->threads().size();
  if (!known.contains(threads)) {
    known[threads] =
        engine::measure_ceilings(loaded->threads(), loaded->kernels().isa, loaded->model().memory().weights);
  }
  const engine::Ceilings& ceilings = known.at(threads);
  for (const auto& [test, batch] : tests) {
    if (stderr_is_terminal()) std::fprintf(stderr, "\r\033[K%s ...", test_name(test).c_str());
    auto speed = engine::measure(*loaded, test, [] { return !interrupted(); });
    if (stderr_is_terminal()) std::fprintf(stderr, "\r\033[K");
    if (!speed.ok()) return std::move(speed).status();
    Row row;
    row.info = loaded->info();
    row.attention = setup.attention;
    row.kv_type = block_format(loaded->model().options().kv_dtype).name;
    row.precision = flags.precision;
    row.batch = batch;
    row.ubatch = test.step;
    row.test = test;
    row.speed = std::move(speed).value();
    row.ceilings = ceilings;
    row.arithmetic = engine::arithmetic_ceiling(*loaded, ceilings);
    row.time = now_utc();
    LITHE_RETURN_IF_ERROR(table.add(row));
  }
  return {};
}

Status bench(const BenchFlags& flags) {
  LITHE_ASSIGN_OR_RETURN(const auto tests, make_tests(flags));
  LITHE_ASSIGN_OR_RETURN(const auto thread_counts,
                         parse_list("-t", flags.threads.value_or("0"), flags.threads ? 1 : 0, 1024));
  LITHE_ASSIGN_OR_RETURN(const auto models, parse_names("--model", flags.models));
  LITHE_ASSIGN_OR_RETURN(const auto kv_types, parse_names("-ctk", flags.kv_types));
  LITHE_ASSIGN_OR_RETURN(const auto attentions, parse_names("--attention", flags.attention));
  std::vector<Setup> setups;
  for (const std::string& model : models) {
    for (const std::int64_t count : thread_counts) {
      for (const std::string& kv_type : kv_types) {
        for (const std::string& attention : attentions) {
          Setup setup;
          setup.model.model = model;
          setup.model.threads = static_cast<int>(count);
          setup.model.kv_type = setup.kv_type = kv_type;
          setup.model.attention = setup.attention = attention;
          setup.model.precision = flags.precision;
          LITHE_RETURN_IF_ERROR(setup.model.options().status());  // all flags are right before any work
          setups.push_back(std::move(setup));
        }
      }
    }
  }
  watch_interrupts();
  Table table(flags.output);
  CeilingsByThreads ceilings;
  for (const Setup& setup : setups) LITHE_RETURN_IF_ERROR(run_setup(flags, setup, tests, ceilings, table));
  return table.finish();
}

}  // namespace

Run add_bench(CLI::App& app) {
  auto flags = std::make_shared<BenchFlags>();
  app.add_option("-m,--model,model", flags->models, "Model files, by comma")->type_name("MODEL[,MODEL]");
  app.add_option("-p,--n-prompt", flags->prompts, "Prompt lengths; default 512 unless -n is given")
      ->type_name("N,...");
  app.add_option("-n,--n-gen", flags->generates, "Tokens to generate; default 128 unless -p is given")
      ->type_name("N,...");
  app.add_option("-d,--n-depth", flags->depths, "Tokens already in the cache")
      ->type_name("N,...")
      ->capture_default_str();
  app.add_option("--npl", flags->rows, "-npl: rows decoded together")
      ->type_name("N,...")
      ->capture_default_str();
  app.add_option("-r,--repetitions", flags->repetitions, "Measured runs of each test")
      ->capture_default_str()
      ->transform(whole_number(1, 1000));
  app.add_option("-t,--threads", flags->threads, "Threads")->type_name("N,...");
  app.add_option("-b,--batch-size", flags->batch, "Most tokens of a batch")
      ->type_name("N,...")
      ->capture_default_str();
  app.add_option("--ub,--ubatch-size,--max-num-batched-tokens", flags->ubatch,
                 "-ub: most tokens of one pass; default 512, or the whole prompt where --attention compares")
      ->type_name("N,...");
  app.add_option("--ctk,--cache-type-k,--kv-cache-dtype", flags->kv_types, "-ctk: types of keys and values")
      ->type_name("f16,...");
  app.add_option_function<std::string>(
         "--ctv,--cache-type-v",
         [flags](const std::string& types) {
           if (flags->kv_types != "auto" && flags->kv_types != types)
             throw CLI::ValidationError("--ctv", "keys and values have one type here");
           flags->kv_types = types;
         },
         "-ctv: the same as -ctk")
      ->type_name("f16,...");
  app.add_option("--attention", flags->attention, "Attention algorithms")
      ->type_name("flash,naive,chunked")
      ->capture_default_str();
  app.add_option("--precision", flags->precision, "Activations")
      ->transform(one_of({"auto", "f32"}))
      ->type_name("auto|f32");
  app.add_flag("--kv-cache,!--no-kv-cache", flags->kv_cache, "Recompute everything for each generated token");
  app.add_option("-o,--output", flags->output, "Table or data")
      ->transform(one_of({"md", "json", "csv"}))
      ->type_name("md|json|csv");
  app.footer(
      "Examples:\n"
      "  lithe bench -m model.gguf -p 512 -n 128 -d 0,2048 -npl 1 -r 5 -t 2 -o md\n"
      "  lithe bench -m model.gguf -n 64 -npl 1,8,16,32\n"
      "  lithe bench -m model.gguf -p 512,2048,4096 --attention flash,naive,chunked\n"
      "  lithe bench -m model.gguf -n 32 -d 256 --no-kv-cache");
  return [flags] { return bench(*flags); };
}

}  // namespace lithe::app
