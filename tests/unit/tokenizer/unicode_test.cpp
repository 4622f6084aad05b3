#include "tokenizer/unicode.h"

#include <gtest/gtest.h>
#include <utf8proc.h>

#include <random>

#include "tokenizer/normalize.h"

namespace lithe::tokenizer {
namespace {

std::string utf8(std::initializer_list<std::uint32_t> points) {
  std::string out;
  for (const std::uint32_t point : points) utf8_append(point, out);
  return out;
}

std::string replaced(std::string_view text) {
  std::vector<ByteRange> ranges;
  return replace_invalid_utf8(text, ranges).value_or(std::string(text));
}

std::string nfc(std::string_view text) {
  auto result = normalize_nfc(text);
  EXPECT_TRUE(result.ok());
  return result->value_or(std::string(text));
}

TEST(UnicodeTable, AgreesWithUtf8procWhereThatHasTheCharacter) {
  // utf8proc follows an older Unicode: what it does not know (Cn) and the few changed since are left out.
  const UnicodeTable& table = UnicodeTable::get();
  int compared = 0, changed = 0;
  for (std::uint32_t point = 0; point < 0x110000; ++point) {
    const char* theirs = utf8proc_category_string(static_cast<utf8proc_int32_t>(point));
    if (std::string_view(theirs) == "Cn") continue;
    static constexpr const char* kNames[] = {"Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl",
                                             "No", "Pc", "Pd", "Ps", "Pe", "Pi", "Pf", "Po", "Sm", "Sc",
                                             "Sk", "So", "Zs", "Zl", "Zp", "Cc", "Cf", "Cs", "Co", "Cn"};
    ++compared;
    changed += std::string_view(theirs) != kNames[static_cast<int>(table.category(point))];
  }
  std::printf("[ counts ] %d code points compared, %d changed category since\n", compared, changed);
  EXPECT_GT(compared, 280'000);
  EXPECT_LT(changed, 20);
}

TEST(UnicodeTable, KnowsWhatPatternsAsk) {
  const UnicodeTable& table = UnicodeTable::get();
  EXPECT_EQ(table.kind('a'), kLetter);
  EXPECT_EQ(table.kind(0x4F60), kLetter);
  EXPECT_EQ(table.kind('7'), kNumber);
  EXPECT_EQ(table.kind(0xBD), kNumber);    // one half
  EXPECT_EQ(table.kind(0x2167), kNumber);  // Roman eight
  EXPECT_EQ(table.kind('\n'), kSpace | kNewline);
  EXPECT_EQ(table.kind('\r'), kSpace | kNewline);
  EXPECT_EQ(table.kind('!'), kPunctuation);
  EXPECT_EQ(table.kind('+'), kSymbol);
  EXPECT_EQ(table.kind(0x301), kMark | kNfcUnsafe);
  EXPECT_EQ(table.kind(0x200B), 0);                   // zero-width space is none
  EXPECT_EQ(table.kind(0x1B35), kMark | kNfcUnsafe);  // class 0, but joins what stands before
  int spaces = 0;
  for (std::uint32_t point = 0; point < 0x110000; ++point) spaces += (table.kind(point) & kSpace) != 0;
  EXPECT_EQ(spaces, 25);  // White_Space
}

TEST(Utf8, ReplacesWhatIsNotUtf8AsPythonDoes) {
  const std::string mark(kReplacement);
  EXPECT_EQ(replaced("plain"), "plain");
  EXPECT_EQ(replaced("a\xFFz"), "a" + mark + "z");
  EXPECT_EQ(replaced("\xC0\xAF"), mark + mark);  // overlong: two errors
  EXPECT_EQ(replaced("\xE0\x80\xAF"), mark + mark + mark);
  EXPECT_EQ(replaced("\xED\xA0\x80"), mark + mark + mark);  // a surrogate
  EXPECT_EQ(replaced("\xF4\x90\x80\x80"), mark + mark + mark + mark);
  EXPECT_EQ(replaced("\xE4\xBD"), mark);  // cut short: one
  EXPECT_EQ(replaced("\xE4\xBD"
                     "a"),
            mark + "a");
  EXPECT_EQ(replaced("\xF0\x9F\x98"
                     "\xE4\xBD\xA0"),
            mark + "\xE4\xBD\xA0");
  EXPECT_EQ(replaced("\x80\x80"), mark + mark);
}

TEST(Utf8, RangesMoveWithTheText) {
  const std::string text =
      "a\xFF"
      "bc\xE4\xBD"
      "d";  // replaced: a(1) mark(3) bc mark(3) d
  std::vector<ByteRange> ranges = {{0, 1}, {2, 4}, {5, 7}};
  const auto out = replace_invalid_utf8(text, ranges);
  ASSERT_TRUE(out.has_value());
  ASSERT_EQ(out->size(), 10u);
  EXPECT_EQ(ranges[0].begin, 0u);
  EXPECT_EQ(ranges[0].end, 1u);
  EXPECT_EQ(out->substr(ranges[1].begin, ranges[1].end - ranges[1].begin), "bc");
  EXPECT_EQ(ranges[2].begin, 6u);  // began inside the bad bytes: takes the mark in
  EXPECT_EQ(ranges[2].end, 10u);
}

TEST(Utf8, RandomBytesBecomeValid) {
  std::mt19937 random(1);
  for (int round = 0; round < 20'000; ++round) {
    std::string text(random() % 24, '\0');
    for (char& byte : text) {
      static constexpr std::uint8_t kEdges[] = {0x00, 0x7F, 0x80, 0xBF, 0xC2, 0xE0,
                                                0xED, 0xEF, 0xF0, 0xF4, 0xF5, 0xFF};
      byte = static_cast<char>(random() % 2 ? kEdges[random() % std::size(kEdges)] : random());
    }
    std::vector<ByteRange> ranges;
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t begin = at + random() % 4, end = begin + random() % 4;
      if (end > text.size()) break;
      ranges.push_back({begin, end});
      at = end;
    }
    const std::string out = replace_invalid_utf8(text, ranges).value_or(text);
    EXPECT_EQ(valid_utf8_prefix(out), out.size());
    std::size_t last = 0;
    for (const ByteRange& range : ranges) {
      EXPECT_LE(last, range.begin);
      EXPECT_LE(range.begin, range.end);
      last = range.end;
    }
    EXPECT_LE(last, out.size());
  }
}

TEST(Nfc, ComposesOrdersAndLeavesTheRest) {
  EXPECT_EQ(nfc("plain \xC3\xA9"), "plain \xC3\xA9");
  EXPECT_EQ(nfc(utf8({'e', 0x301})), utf8({0xE9}));
  EXPECT_EQ(nfc(utf8({'a', 0x301, 0x316})), utf8({0xE1, 0x316}));
  EXPECT_EQ(nfc(utf8({0x1100, 0x1161, 0x11A8, 'x'})), utf8({0xAC01, 'x'}));
  EXPECT_EQ(nfc(utf8({0xAC00, 0x11A8})), utf8({0xAC01}));
  EXPECT_EQ(nfc(utf8({0x212B})), utf8({0xC5}));
  EXPECT_EQ(nfc(utf8({0xF900})), utf8({0x8C48}));
  EXPECT_EQ(nfc(utf8({0x344})), utf8({0x308, 0x301}));
  EXPECT_EQ(nfc(utf8({0x958})), utf8({0x915, 0x93C}));
  EXPECT_EQ(nfc(utf8({0x1B05, 0x1B35})), utf8({0x1B06}));
  EXPECT_EQ(nfc(utf8({0x4F60, 0x597D})), utf8({0x4F60, 0x597D}));
}

TEST(Nfc, EqualsUtf8procOnRandomText) {
  std::mt19937 random(2);
  int strings = 0;
  const std::uint32_t pool[] = {'a',    'e',   'o',   'q',    0x300,  0x301,  0x303,  0x308,  0x316,
                                0x323,  0x327, 0x334, 0x345,  0x915,  0x93C,  0x1100, 0x1161, 0x11A8,
                                0xAC00, 0x9C7, 0x9BE, 0x3099, 0x304B, 0x212B, 0xF900, 0x1E9B, 0x4E00};
  for (int round = 0; round < 100'000; ++round) {
    std::string text;
    for (std::size_t i = random() % 12; i-- > 0;) utf8_append(pool[random() % std::size(pool)], text);
    utf8proc_uint8_t* theirs = nullptr;
    utf8proc_map(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                 static_cast<utf8proc_ssize_t>(text.size()), &theirs,
                 static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE));
    ASSERT_NE(theirs, nullptr);
    EXPECT_EQ(nfc(text), reinterpret_cast<const char*>(theirs));
    free(theirs);
    ++strings;
  }
  std::printf("[ counts ] %d strings normalised alike\n", strings);
}

}  // namespace
}  // namespace lithe::tokenizer
