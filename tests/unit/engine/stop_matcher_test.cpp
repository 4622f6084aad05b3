#include "engine/stop_matcher.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/rng.h"

namespace lithe::engine {
namespace {

/// What streams out of the pieces, cut as given.
std::string stream(const std::vector<std::string>& stops, const std::vector<std::string>& pieces) {
  StopMatcher matcher(stops);
  std::string out;
  for (const auto& piece : pieces) out += matcher.push(piece);
  return out + matcher.finish();
}

TEST(StopMatcher, NoStopsLetsEverythingThroughAtOnce) {
  StopMatcher matcher({});
  EXPECT_EQ(matcher.push("abc"), "abc");
  EXPECT_EQ(matcher.finish(), "");
}

// Field case 10: the answer ABCDEFGHIJ... with the stop string DEFGHIJ, and DE inside a token.
TEST(StopMatcher, FieldCase10NoPieceOfAStopStringComesOut) {
  StopMatcher matcher({"DEFGHIJ"});
  EXPECT_EQ(matcher.push("AB"), "AB");
  EXPECT_EQ(matcher.push("CD"), "C");
  EXPECT_EQ(matcher.push("EFG"), "");
  EXPECT_EQ(matcher.push("HIJKL"), "");
  EXPECT_TRUE(matcher.matched());
  EXPECT_EQ(matcher.push("more"), "");
  EXPECT_EQ(matcher.finish(), "");

  StopMatcher inside({"DE"});
  EXPECT_EQ(inside.push("ABCDEF"), "ABC");
  EXPECT_TRUE(inside.matched());
}

TEST(StopMatcher, HeldTextComesOutWhenItTurnsOutHarmless) {
  StopMatcher matcher({"\n\nUser:"});
  EXPECT_EQ(matcher.push("line\n"), "line");
  EXPECT_EQ(matcher.push("\nUs"), "");
  EXPECT_EQ(matcher.push("ually"), "\n\nUsually");
  EXPECT_EQ(matcher.push(" x\n"), " x");
  EXPECT_EQ(matcher.finish(), "\n");
}

TEST(StopMatcher, SelfOverlappingStop) {
  EXPECT_EQ(stream({"aab"}, {"a", "a", "a", "b", "c"}), "a");
  EXPECT_EQ(stream({"abab"}, {"ab", "a", "c"}), "abac");
}

TEST(StopMatcher, TheStopThatCompletesFirstWins) {
  EXPECT_EQ(stream({"ABCD", "BC"}, {"ABCD"}), "A");
  EXPECT_EQ(stream({"ABCD", "BC"}, {"A", "B", "C", "D"}), "A");
  EXPECT_EQ(stream({"BC", "ABC"}, {"xABC"}), "x");  // both end here: the longer
}

// The cut must depend on the text alone: any division into tokens gives what one byte at a time gives.
TEST(StopMatcher, AnyDivisionGivesTheSameText) {
  Rng rng(11);
  const auto below = [&](std::uint64_t n) { return static_cast<std::size_t>(rng.next_u64() % n); };
  int matches = 0;
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (std::size_t i = below(24); i > 0; --i) text += static_cast<char>('a' + below(3));
    std::vector<std::string> stops(1 + below(3));
    for (auto& stop : stops) {
      for (std::size_t i = 1 + below(4); i > 0; --i) stop += static_cast<char>('a' + below(3));
    }
    std::vector<std::string> bytes, pieces;
    for (const char c : text) bytes.emplace_back(1, c);
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t length = 1 + below(6);
      pieces.push_back(text.substr(at, length));
      at += length;
    }
    const std::string slow = stream(stops, bytes);
    ASSERT_EQ(stream(stops, pieces), slow) << text;
    for (const auto& stop : stops) ASSERT_EQ(slow.find(stop), std::string::npos);
    matches += slow.size() < text.size() ? 1 : 0;
  }
  EXPECT_GT(matches, 1000);
  std::printf("[ counts ] 5000 texts, %d of them stopped\n", matches);
}

TEST(StopMatcher, ValidateNamesTheFault) {
  EXPECT_TRUE(validate_stops({"a", "b"}).ok());
  EXPECT_THAT(validate_stops({""}).message(), testing::HasSubstr("empty"));
  EXPECT_THAT(validate_stops(std::vector<std::string>(500'000, "x")).message(),
              testing::HasSubstr("at most 64"));
  EXPECT_THAT(validate_stops({std::string(5000, 'x')}).message(), testing::HasSubstr("5000 bytes"));
}

}  // namespace
}  // namespace lithe::engine
