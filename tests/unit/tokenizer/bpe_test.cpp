// Merging against the plainest possible one, on vocabularies whose merges obey no order.
#include "tokenizer/bpe.h"

#include <gtest/gtest.h>

#include <map>
#include <random>

#include "tiny_vocab.h"
#include "tokenizer/char_table.h"

namespace lithe::tokenizer {
namespace {

using testing::TinyVocab;

/// Straight from the definition: while there is one, join the leftmost of the pairs of lowest rank.
std::vector<TokenId> merge_by_definition(const Bpe& bpe,
                                         const std::map<std::pair<TokenId, TokenId>, Rank>& ranks,
                                         std::string_view word) {
  std::vector<TokenId> ids;
  for (const char byte : word) {
    if (const TokenId id = bpe.byte_id(static_cast<std::uint8_t>(byte)); id != kNoToken) ids.push_back(id);
  }
  while (true) {
    Rank best = kNoRank;
    std::size_t at = 0;
    for (std::size_t i = 0; i + 1 < ids.size(); ++i) {
      const auto found = ranks.find({ids[i], ids[i + 1]});
      if (found != ranks.end() && found->second < best) best = found->second, at = i;
    }
    if (best == kNoRank) return ids;
    ids[at] = bpe.merges().joined(best);
    ids.erase(ids.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
}

struct Random {
  std::mt19937 engine;
  std::size_t below(std::size_t bound) { return engine() % bound; }
};

/// Merges of random tokens so far, in the order made (as training does) or shuffled.
TinyVocab random_vocab(Random& random, const std::vector<std::string>& units, bool shuffled) {
  TinyVocab vocab;
  std::vector<std::string> known;
  for (const std::string& unit : units) {
    for (const char byte : unit) known.emplace_back(1, byte);
    if (random.below(3) > 0) {
      for (std::size_t i = 1; i < unit.size(); ++i) vocab.merge(unit.substr(0, i), unit.substr(i, 1));
      known.push_back(unit);
    }
  }
  for (std::size_t i = 5 + random.below(60); i-- > 0;) {
    const std::string left = known[random.below(known.size())], right = known[random.below(known.size())];
    if (left.size() + right.size() > 12) continue;
    vocab.merge(left, right);
    known.push_back(left + right);
  }
  if (shuffled) std::shuffle(vocab.spec.merges.begin(), vocab.spec.merges.end(), random.engine);
  return vocab;
}

TEST(Bpe, EqualsTheDefinitionOnRandomVocabularies) {
  const std::vector<std::string> units = {"a",
                                          "b",
                                          " ",
                                          "\xC3\xA9",
                                          "\xD0\xB6",
                                          "\xE4\xBD\xA0",
                                          "\xE4\xBD\xA1",
                                          "\xE5\xA5\xBD",
                                          "\xE5\xA5\xA0",
                                          "\xF0\x9F\x98\x80"};
  Random random{std::mt19937(7)};
  std::size_t words = 0, whole = 0;
  for (int round = 0; round < 600; ++round) {
    const TinyVocab vocab = random_vocab(random, units, round % 3 == 0);
    auto tokens = TokenTable::create(vocab.spec);
    ASSERT_TRUE(tokens.ok());
    auto bpe = Bpe::create(*tokens, vocab.spec.merges, false);
    ASSERT_TRUE(bpe.ok()) << bpe.status().message();
    std::map<std::pair<TokenId, TokenId>, Rank> ranks;
    for (Rank rank = 0; rank < (*bpe)->merges().size(); ++rank) {
      ranks.emplace(std::pair((*bpe)->merges().left(rank), (*bpe)->merges().right(rank)), rank);
    }
    std::array<TokenId, 256> byte_ids;
    for (std::size_t byte = 0; byte < 256; ++byte)
      byte_ids[byte] = (*bpe)->byte_id(static_cast<std::uint8_t>(byte));
    whole += CharTable(*tokens, (*bpe)->merges(), byte_ids).size();
    WordEncoder encoder(**bpe, 4096);
    for (int i = 0; i < 150; ++i, ++words) {
      std::string word;
      // Up to 60 characters: both ways of merging, and words that come again for the cache.
      for (std::size_t n = 1 + random.below(i % 10 == 0 ? 60 : 6); n-- > 0;)
        word += units[random.below(units.size())];
      const std::vector<TokenId> expected = merge_by_definition(**bpe, ranks, word);
      std::vector<TokenId> plain, fast;
      encoder.encode_plainly(word, plain);
      ASSERT_EQ(plain, expected) << ::testing::PrintToString(word);
      encoder.encode(word, word.data() + word.size(), fast);
      ASSERT_EQ(fast, expected) << ::testing::PrintToString(word) << " in round " << round;
    }
  }
  std::printf("[ counts ] %zu words equal; characters that start whole: %zu in 600 vocabularies\n", words,
              whole);
  EXPECT_GT(whole, 300u);  // or the shortcut was not tested
}

TEST(Bpe, BytesWithoutATokenVanish) {
  // As in SmolLM2, where some control characters have no token: the neighbours meet and may merge.
  TinyVocab vocab;
  vocab.merge("a", "b");
  vocab.learn("\xE4\xBD\xA0");
  vocab.merge("\xE4\xBD\xA0", "c");
  vocab.spec.types[4] = TokenType::unused;
  auto tokens = TokenTable::create(vocab.spec);
  ASSERT_TRUE(tokens.ok());
  auto bpe = Bpe::create(*tokens, vocab.spec.merges, false);
  ASSERT_TRUE(bpe.ok());
  WordEncoder encoder(**bpe, 0);
  const auto encode = [&](std::string_view word) {
    std::vector<TokenId> ids;
    encoder.encode(word, word.data() + word.size(), ids);
    return ids;
  };
  EXPECT_EQ(encode("a\x04"
                   "b"),
            encode("ab"));
  EXPECT_EQ(encode("\xE4\xBD\xA0\x04"
                   "c"),
            encode("\xE4\xBD\xA0"
                   "c"));
  EXPECT_EQ(encode("\x04"), std::vector<TokenId>());
}

TEST(CharTable, RefusesCharactersThatANeighbourBreaksUp) {
  TinyVocab vocab;
  vocab.merge(" ", "\xE4");  // strikes before the character is built, after a blank only
  vocab.learn("\xE4\xBD\xA0");
  vocab.learn("\xE5\xA5\xBD");
  vocab.merge("\xBD", "!");  // too late to take the end of the second one
  auto tokens = TokenTable::create(vocab.spec);
  auto bpe = Bpe::create(*tokens, vocab.spec.merges, false);
  ASSERT_TRUE(bpe.ok());
  std::array<TokenId, 256> byte_ids;
  for (std::size_t byte = 0; byte < 256; ++byte) byte_ids[byte] = static_cast<TokenId>(byte);
  const CharTable chars(*tokens, (*bpe)->merges(), byte_ids);
  EXPECT_EQ(chars.size(), 2u);
  EXPECT_EQ(chars.find(" \xE4\xBD\xA0", 1, 3), kNoToken);
  EXPECT_EQ(chars.find("a\xE4\xBD\xA0", 1, 3), kNoToken);  // what a blank does counts for all of ASCII
  EXPECT_NE(chars.find("\xE5\xA5\xBD\xE4\xBD\xA0", 3, 3), kNoToken);
  EXPECT_NE(chars.find("\xE5\xA5\xBD!", 0, 3), kNoToken);
}

}  // namespace
}  // namespace lithe::tokenizer
