#include "base/text.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

#include "base/progress.h"

namespace lithe {
namespace {

TEST(Text, UntrustedNamesAreMadeFitForATerminal) {
  EXPECT_EQ(in_quotes("blk.0.attn_q.weight"), "'blk.0.attn_q.weight'");
  EXPECT_EQ(printable("caf\xc3\xa9 \xe4\xbd\xa0 \xf0\x9f\x98\x80"),
            "caf\xc3\xa9 \xe4\xbd\xa0 \xf0\x9f\x98\x80");
  EXPECT_EQ(printable("\x1b[2J\r\n\t\x7f"), "\\x1b[2J\\x0d\\n\\x09\\x7f");
  EXPECT_EQ(printable("\xc2\x9b"), "\\xc2\\x9b") << "a control character of the second kind";
  EXPECT_EQ(printable(std::string_view("a\0b", 3)), "a\\x00b");
  EXPECT_EQ(printable("\xff\xc3"), "\\xff\\xc3");
  EXPECT_EQ(printable("\xc0\xaf\xed\xa0\x80\xf5\x80\x80\x80"),
            "\\xc0\\xaf\\xed\\xa0\\x80\\xf5\\x80\\x80\\x80")
      << "overlong, a surrogate, beyond U+10FFFF";
  EXPECT_EQ(printable(std::string(1000, 'x'), 10), "xxxxxxxxxx...");
}

TEST(Text, SizesAndCountsHaveThreeDigits) {
  EXPECT_EQ(human_bytes(0), "0 B");
  EXPECT_EQ(human_bytes(999), "999 B");
  EXPECT_EQ(human_bytes(1000), "1.00 kB");
  EXPECT_EQ(human_bytes(98362432), "98.4 MB");
  EXPECT_EQ(human_bytes(999.96e6), "1.00 GB");
  EXPECT_EQ(human_count(576), "576");
  EXPECT_EQ(human_count(134515008), "135 M");
  EXPECT_EQ(human_count(1235814400), "1.24 B");
}

TEST(Progress, SecondsReadAsPeopleSayThem) {
  EXPECT_EQ(human_seconds(0.04), "0.0 s");
  EXPECT_EQ(human_seconds(9.94), "9.9 s");
  EXPECT_EQ(human_seconds(12.4), "12 s");
  EXPECT_EQ(human_seconds(59.6), "1 min 0 s");
  EXPECT_EQ(human_seconds(65), "1 min 5 s");
  EXPECT_EQ(human_seconds(7380), "2 h 3 min");
}

TEST(Progress, TheLineShowsShareTimeLeftAndFits) {
  EXPECT_EQ(progress_line("Converting", 0.5, 10.0, "", 120),
            "Converting [##############--------------]  50%  10 s left");
  EXPECT_EQ(progress_line("x", 0.5, 0.5, "", 120), "x [##############--------------]  50%");
  EXPECT_EQ(progress_line("x", 2.0, 9.0, "a\nb", 120), "x [############################] 100%  a\\nb");
  EXPECT_EQ(progress_line("Converting", 0.5, 10.0, "note", 20).size(), 20u);
}

TEST(Text, TheNearestNameIsTheFirstOfTheLeastDifferent) {
  EXPECT_EQ(edit_distance("", "abc"), 3u);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3u);
  const std::array<std::string_view, 4> known{"qwen2", "llama", "qwen3", "mamba2"};
  EXPECT_EQ(nearest_name("qwen3vl", known), "qwen3");
  EXPECT_EQ(nearest_name("mamba", known), "mamba2");
  EXPECT_EQ(nearest_name("qwen", known), "qwen2");
  EXPECT_EQ(nearest_name("x", {}), "");
  EXPECT_FALSE(nearest_name(std::string(1 << 20, 'q'), known).empty());
}

}  // namespace
}  // namespace lithe
