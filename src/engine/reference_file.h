// What a model thought of a text, kept to compare another model with: for each scored token the exact negative
// log-likelihood and the likeliest token, and all log-probabilities in 16 bits.
//
// A log-probability l is kept as round(sqrt(-l) * 65535 / 8): finest where the probability mass is (an error of 6e-5 at
// l = -1, 6e-6 at l = -0.01), and good to e^-64. A divergence computed from it is exact to about 1e-8.
//
// Layout: one line of JSON (magic, model, protocol, ctx, vocab, windows, text_hash), then per scored token f64 nll,
// i32 argmax, u32 zero, u16[vocab].
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/file.h"
#include "engine/scoring.h"

namespace lithe::engine {

/// Says which text was scored, and how: two runs compare only when these agree.
struct ScoringKey {
  std::string protocol;
  std::int64_t ctx = 0, vocab = 0, windows = 0;
  std::uint64_t text_hash = 0;
  bool operator==(const ScoringKey&) const = default;
};

class ReferenceWriter {
 public:
  /// Nothing appears under `path` before commit().
  static Result<ReferenceWriter> create(const std::string& path, const std::string& model,
                                        const ScoringKey& key);
  Status add(std::span<const float> logits, const LogSum& sum, double nll);
  Status commit() { return file_.commit(); }

 private:
  explicit ReferenceWriter(AtomicFile file) : file_(std::move(file)) {}
  AtomicFile file_;
  std::vector<std::byte> record_;
};

struct ReferenceRow {
  double nll = 0;
  std::int64_t argmax = 0;
  std::span<const std::uint16_t> codes;  // [vocab]
};

class ReferenceFile {
 public:
  /// corrupt: not such a file, or cut. invalid_argument: of another text, protocol or vocabulary than `key`.
  static Result<ReferenceFile> open(const std::string& path, const ScoringKey& key);
  /// row < rows()
  ReferenceRow row(std::int64_t row) const;
  std::int64_t rows() const { return rows_; }
  const std::string& model() const { return model_; }

 private:
  explicit ReferenceFile(MappedFile file) : file_(std::move(file)) {}
  MappedFile file_;
  std::string model_;
  std::size_t header_ = 0, record_ = 0;
  std::int64_t rows_ = 0, vocab_ = 0;
};

/// KL(reference || model) in nats, >= 0 up to rounding.
double kl_divergence(const ReferenceRow& reference, std::span<const float> logits, const LogSum& sum);

std::uint64_t text_hash(std::string_view text);  // FNV-1a

}  // namespace lithe::engine
