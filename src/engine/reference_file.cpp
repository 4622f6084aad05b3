#include "engine/reference_file.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "base/checked.h"

namespace lithe::engine {
namespace {

constexpr const char* kMagic = "lithe-reference-1";
constexpr double kScale = 65535.0 / 8.0;
constexpr std::size_t kRecordHead = 16;  // f64 nll, i32 argmax, u32 zero

/// exp(l) and l for each code.
struct Decoded {
  std::array<double, 65536> log, probability;
};

const Decoded& decoded() {
  static const auto table = [] {
    auto t = std::make_unique<Decoded>();
    for (std::size_t i = 0; i < t->log.size(); ++i) {
      const double root = static_cast<double>(i) / kScale;
      t->log[i] = -root * root;
      t->probability[i] = std::exp(t->log[i]);
    }
    return t;
  }();
  return *table;
}

}  // namespace

std::uint64_t text_hash(std::string_view text) {
  std::uint64_t hash = 14695981039346656037u;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211u;
  return hash;
}

Result<ReferenceWriter> ReferenceWriter::create(const std::string& path, const std::string& model,
                                                const ScoringKey& key) {
  LITHE_ASSIGN_OR_RETURN(AtomicFile file, AtomicFile::create(path));
  const nlohmann::ordered_json header = {
      {"magic", kMagic},    {"model", model},         {"protocol", key.protocol},  {"ctx", key.ctx},
      {"vocab", key.vocab}, {"windows", key.windows}, {"text_hash", key.text_hash}};
  std::string line = header.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  while ((line.size() + 1) % 8 != 0) line += ' ';  // records are read as they lie
  LITHE_RETURN_IF_ERROR(file.write(line + "\n"));
  return ReferenceWriter(std::move(file));
}

Status ReferenceWriter::add(std::span<const float> logits, const LogSum& sum, double nll) {
  record_.assign(round_up<std::size_t>(kRecordHead + logits.size() * 2, 8), std::byte{0});
  const auto argmax = static_cast<std::int32_t>(sum.argmax);
  std::memcpy(record_.data(), &nll, 8);
  std::memcpy(record_.data() + 8, &argmax, 4);
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double root = std::sqrt(std::max(0.0, sum.value - static_cast<double>(logits[i])));
    const auto code = static_cast<std::uint16_t>(std::lround(std::min(root * kScale, 65535.0)));
    std::memcpy(record_.data() + kRecordHead + 2 * i, &code, 2);
  }
  return file_.write(record_);
}

Result<ReferenceFile> ReferenceFile::open(const std::string& path, const ScoringKey& key) {
  LITHE_ASSIGN_OR_RETURN(MappedFile mapped, MappedFile::open(path));
  ReferenceFile out(std::move(mapped));
  const auto bytes = out.file_.bytes();
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()),
                              std::min<std::size_t>(bytes.size(), 1 << 16));
  const auto end = text.find('\n');
  const auto header = nlohmann::json::parse(text.substr(0, end), nullptr, false);
  if (end == std::string_view::npos || !header.is_object() || !header.contains("magic") ||
      header["magic"] != kMagic) {
    return corrupt("{} was not written by --save-logits", path);
  }
  ScoringKey found;
  try {
    out.model_ = header.at("model").get<std::string>();
    found.protocol = header.at("protocol").get<std::string>();
    found.ctx = header.at("ctx").get<std::int64_t>();
    found.vocab = header.at("vocab").get<std::int64_t>();
    found.windows = header.at("windows").get<std::int64_t>();
    found.text_hash = header.at("text_hash").get<std::uint64_t>();
  } catch (const nlohmann::json::exception& error) {
    return corrupt("{}: {}", path, error.what());
  }
  const auto differ = [&](const char* what, const auto& there, const auto& here) {
    return invalid("{} holds {} {}, this run has {}: they cannot be compared", path, what, there, here);
  };
  if (found.vocab != key.vocab) return differ("a vocabulary of", found.vocab, key.vocab);
  if (found.protocol != key.protocol) return differ("protocol", found.protocol, key.protocol);
  if (found.ctx != key.ctx) return differ("windows of", found.ctx, key.ctx);
  if (found.text_hash != key.text_hash) return invalid("{} was made from another text", path);
  if (found.windows < key.windows) return differ("windows:", found.windows, key.windows);
  out.vocab_ = found.vocab;
  out.header_ = end + 1;
  out.record_ = round_up<std::size_t>(kRecordHead + static_cast<std::size_t>(found.vocab) * 2, 8);
  out.rows_ = static_cast<std::int64_t>((bytes.size() - out.header_) / out.record_);
  const std::int64_t per_window = key.protocol == "half" ? key.ctx - 1 - key.ctx / 2 : key.ctx - 1;
  if (out.rows_ < per_window * key.windows || out.header_ % 8 != 0) {
    return corrupt("{} is cut: it holds {} tokens of {}", path, out.rows_, per_window * key.windows);
  }
  return out;
}

ReferenceRow ReferenceFile::row(std::int64_t row) const {
  const std::byte* at = file_.bytes().data() + header_ + static_cast<std::size_t>(row) * record_;
  ReferenceRow out;
  std::int32_t argmax = 0;
  std::memcpy(&out.nll, at, 8);
  std::memcpy(&argmax, at + 8, 4);
  out.argmax = argmax;
  out.codes = {reinterpret_cast<const std::uint16_t*>(at + kRecordHead), static_cast<std::size_t>(vocab_)};
  return out;
}

double kl_divergence(const ReferenceRow& reference, std::span<const float> logits, const LogSum& sum) {
  const Decoded& table = decoded();
  double total = 0, cross = 0;  // of the decoded probabilities, which add up to 1 only nearly
  for (std::size_t i = 0; i < logits.size(); ++i) {
    const double p = table.probability[reference.codes[i]];
    total += p;
    cross += p * (table.log[reference.codes[i]] - (static_cast<double>(logits[i]) - sum.value));
  }
  return cross / total - std::log(total);
}

}  // namespace lithe::engine
