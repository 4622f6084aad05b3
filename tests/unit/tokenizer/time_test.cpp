// Time grows with the text, not with its square (field cases 3 and 4). The thread's own processor time is
// taken, the least of several runs.
#include <gtest/gtest.h>
#include <time.h>

#include <algorithm>

#include "tiny_vocab.h"

namespace lithe::tokenizer {
namespace {

using testing::TinyVocab;

double cpu_seconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

std::string repeat(std::string_view unit, std::size_t times) {
  std::string text;
  for (std::size_t i = 0; i < times; ++i) text += unit;
  return text;
}

/// How many times longer `large` takes than `small`: the least of several runs of each, taken in turn.
double time_ratio(const Tokenizer& tokenizer, std::string_view small, std::string_view large) {
  double least_small = 1e9, least_large = 1e9;
  const auto time = [&](std::string_view text, double& least) {
    const double start = cpu_seconds();
    EXPECT_TRUE(tokenizer.encode(text).ok());
    least = std::min(least, cpu_seconds() - start);
  };
  for (int run = 0; run < 5; ++run) {
    for (int i = 0; i < 4; ++i) time(small, least_small);
    time(large, least_large);
  }
  return least_large / least_small;
}

/// A linear algorithm passes one of the attempts also on a busy machine; a quadratic one never.
bool stays_below(double bound, const Tokenizer& tokenizer, std::string_view small, std::string_view large) {
  for (int attempt = 0; attempt < 8; ++attempt) {
    if (time_ratio(tokenizer, small, large) < bound) return true;
  }
  return false;
}

Tokenizer make(const char* pre) {
  TinyVocab vocab(pre);
  vocab.merge("u", "s");
  for (const char* run : {"A", ".", " ", "us", "\n"}) {
    for (std::string token = run; token.size() < 20; token += token) vocab.merge(token, token);
  }
  vocab.learn("\xE4\xBD\xA0");
  vocab.merge("\xE4\xBD\xA0", "\xE4\xBD\xA0");
  vocab.learn(" the");
  vocab.add("<|end|>", TokenType::control);
  return vocab.make();
}

TEST(Time, IsLinearInRepetitions) {
  for (const char* pre : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    const Tokenizer tokenizer = make(pre);
    for (const char* unit : {"A", "\xE4\xBD\xA0", ".", " ", "us", "\n", "1", "'", "<|", "\xCC\x81", "\xFF",
                             "<|end|>", "A\xCC\x81\xCC\x96"}) {
      const std::string text = repeat(unit, 60'000);  // eight times the other: quadratic is 64
      EXPECT_TRUE(stays_below(24, tokenizer, std::string_view(text).substr(0, text.size() / 8), text))
          << pre << " " << ::testing::PrintToString(unit);
    }
  }
}

TEST(Time, SortsLongRunsOfMarks) {  // of two classes in turn: the slow part of NFC
  const Tokenizer tokenizer = make("qwen2");
  const std::string text = "e" + repeat("\xCC\x81\xCC\x96", 80'000);
  EXPECT_TRUE(stays_below(24, tokenizer, std::string_view(text).substr(0, 40'001), text));
}

TEST(Time, IsLinearInWords) {
  for (const char* pre : {"gpt-2", "smollm", "llama-bpe", "qwen2"}) {
    const Tokenizer tokenizer = make(pre);
    std::mt19937 random(1);
    std::string text;
    while (text.size() < 400'000) {
      text += ' ';
      for (std::size_t i = 1 + random() % 9; i-- > 0;) text += static_cast<char>('a' + random() % 26);
    }
    text.resize(400'000);
    EXPECT_TRUE(stays_below(5, tokenizer, std::string_view(text).substr(0, 100'000), text)) << pre;
  }
}

}  // namespace
}  // namespace lithe::tokenizer
