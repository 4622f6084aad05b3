// A model of ten lines: its "keys and values" are the tokens themselves, written into the pages, and its logits are a
// hash of everything the pages hold up to the row's position. A wrong page, a stale token or a wrong position anywhere
// in the engine therefore changes the text. A recurrent one writes them into its state instead, and reads no page.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "engine/core.h"
#include "kernels/kernel_table.h"

namespace lithe::engine {

/// 256 bytes as tokens (id = byte), then the special ones.
inline constexpr std::int32_t kEnd = 256;       // eos
inline constexpr std::int32_t kTurnEnd = 257;   // eot
inline constexpr std::int32_t kThirdEnd = 258;  // named by a generation config only
inline constexpr std::int32_t kRowless = 259;   // a token without a row, if rows say so
inline constexpr std::int64_t kTokens = 260;

inline tokenizer::Tokenizer byte_tokenizer() {
  std::vector<std::string> written;
  int next = 256;
  for (int byte = 0; byte < 256; ++byte) {  // GPT-2's alphabet: printable bytes stand for themselves
    const bool printable = (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
    const int code = printable ? byte : next++;
    std::string utf8;
    if (code < 0x80) {
      utf8 += static_cast<char>(code);
    } else {
      utf8 += static_cast<char>(0xc0 | (code >> 6));
      utf8 += static_cast<char>(0x80 | (code & 0x3f));
    }
    written.push_back(utf8);
  }
  for (const char* special : {"<|end|>", "<|turn|>", "<|third|>", "<|rowless|>"}) written.push_back(special);
  tokenizer::VocabSpec spec;
  spec.model = "gpt2";
  spec.pre = "gpt-2";
  spec.tokens.assign(written.begin(), written.end());
  spec.types.assign(256, tokenizer::TokenType::normal);
  spec.types.resize(written.size(), tokenizer::TokenType::control);
  spec.eos = kEnd;
  spec.eot = kTurnEnd;
  spec.extra_eos = {kThirdEnd};
  spec.add_bos = false;
  auto tokenizer = tokenizer::Tokenizer::create(spec);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status().message();
  return std::move(tokenizer).value();
}

inline kernels::KernelTable scalar_reductions() {
  kernels::KernelTable t;
  t.argmax = [](const float* x, std::int64_t n) -> std::int64_t { return std::max_element(x, x + n) - x; };
  t.max = [](const float* x, std::int64_t n) { return *std::max_element(x, x + n); };
  t.exp_sum = [](float* x, float max, std::int64_t n) {
    double sum = 0;
    for (std::int64_t i = 0; i < n; ++i) sum += static_cast<double>(x[i] = std::exp(x[i] - max));
    return sum;
  };
  return t;
}

struct FakeModel {
  static constexpr int kPageTokens = 4;
  static constexpr std::size_t kPageBytes = 64;  // the pool's alignment

  static constexpr std::size_t kStateFloats = 256;  // how many tokens there are, then the tokens

  explicit FakeModel(std::int64_t pages, std::int64_t logit_rows = kTokens, bool is_recurrent = false)
      : recurrent(is_recurrent),
        tokenizer(byte_tokenizer()),
        kernels(scalar_reductions()),
        rows(logit_rows),
        pool(kvcache::PagePool::create(kPageBytes, pages, kPageTokens, is_recurrent ? kStateFloats : 0)
                 .value()) {}

  bool recurrent;
  tokenizer::Tokenizer tokenizer;
  kernels::KernelTable kernels;
  std::int64_t rows;
  kvcache::PagePool pool;
  std::int64_t largest_batch = 0, calls = 0;
  /// Overrides the hash: all tokens up to the row -> the token that shall win, or nothing.
  std::function<std::optional<std::int32_t>(const std::vector<std::int32_t>&)> script;
  std::function<void(const std::vector<std::int32_t>&, std::span<float>)>
      spoil;  // last word on a row's logits
  Status fault;

  Status forward(const models::Batch& batch, std::span<float> logits) {
    if (!fault.ok()) return fault;
    ++calls;
    largest_batch = std::max(largest_batch, static_cast<std::int64_t>(batch.tokens.size()));
    EXPECT_EQ(logits.size(), batch.logit_rows.size() * static_cast<std::size_t>(rows));
    std::size_t next = 0;
    for (const auto& sequence : batch.sequences) {
      const std::int64_t past = sequence.cache->length();
      const std::span<float> state = sequence.cache->state();
      EXPECT_EQ(state.size(), recurrent ? kStateFloats : 0);
      if (recurrent) {
        EXPECT_EQ(state[0], static_cast<float>(past)) << "a state of other tokens";
      }
      for (std::int64_t i = 0; i < sequence.count; ++i) {
        const std::int32_t token = batch.tokens[static_cast<std::size_t>(sequence.begin + i)];
        if (recurrent) {
          state[static_cast<std::size_t>(++state[0])] = static_cast<float>(token);
        } else {
          *slot(*sequence.cache, past + i) = token;
        }
      }
      sequence.cache->commit(sequence.count);
      for (; next < batch.logit_rows.size() && batch.logit_rows[next] < sequence.begin + sequence.count;
           ++next) {
        std::vector<std::int32_t> seen;
        for (std::int64_t p = 0; p <= past + batch.logit_rows[next] - sequence.begin; ++p) {
          seen.push_back(recurrent ? static_cast<std::int32_t>(state[static_cast<std::size_t>(p) + 1])
                                   : *slot(*sequence.cache, p));
        }
        write_logits(seen,
                     logits.subspan(next * static_cast<std::size_t>(rows), static_cast<std::size_t>(rows)));
      }
    }
    EXPECT_EQ(next, batch.logit_rows.size());
    return {};
  }

  CoreModel port() {
    CoreModel model;
    model.forward = [this](const models::Batch& batch, std::span<float> logits) {
      return forward(batch, logits);
    };
    model.logits = rows;
    model.tokenizer = &tokenizer;
    model.kernels = &kernels;
    model.pool = &pool;
    return model;
  }

 private:
  std::int32_t* slot(const kvcache::SequenceCache& cache, std::int64_t position) {
    const auto page = cache.pages()[static_cast<std::size_t>(position / kPageTokens)];
    return reinterpret_cast<std::int32_t*>(pool.data(page)) + position % kPageTokens;
  }

  void write_logits(const std::vector<std::int32_t>& seen, std::span<float> logits) {
    std::uint64_t hash = 1469598103934665603u;
    for (const std::int32_t token : seen) hash = (hash ^ static_cast<std::uint64_t>(token)) * 1099511628211u;
    for (std::size_t j = 0; j < logits.size(); ++j) {
      const std::uint64_t mixed = (hash ^ (j * 0x9E3779B97F4A7C15u)) * 0xBF58476D1CE4E5B9u;
      logits[j] = static_cast<float>(mixed >> 40) * 0x1p-24f * 8.0f - 4.0f;
      if (j >= 256) logits[j] = -20.0f;  // specials only when scripted
    }
    if (script) {
      if (const auto id = script(seen)) logits[static_cast<std::size_t>(*id)] = 50.0f;
    }
    if (spoil) spoil(seen, logits);
  }
};

}  // namespace lithe::engine
