#include "tokenizer/tokenizer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "tiny_vocab.h"

namespace lithe::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TinyVocab;

constexpr TokenId kA = 'a', kB = 'b', kBlank = ' ';

/// Bytes, "ab", and control tokens <s> </s> <|u|> <|u|>> and the added <t>.
struct Chat : TinyVocab {
  TokenId ab, bos, eos, user, longer, tool;
  explicit Chat(std::string pre = "gpt-2") : TinyVocab(std::move(pre)) {
    merge("a", "b");
    ab = 256;
    bos = add("<s>", TokenType::control);
    eos = add("</s>", TokenType::control);
    user = add("<|u|>", TokenType::control);
    longer = add("<|u|>>", TokenType::control);
    tool = add("<t>", TokenType::user_defined);
    spec.bos = bos;
    spec.eos = eos;
    spec.add_bos = true;
  }
};

std::vector<TokenId> ids(const Tokenizer& tokenizer, std::string_view text,
                         EncodeOptions options = {.add_special = false}) {
  auto out = tokenizer.encode(text, options);
  EXPECT_TRUE(out.ok()) << out.status().message();
  return out.ok() ? *out : std::vector<TokenId>();
}
std::vector<TokenId> bytes_of(std::string_view text) {
  std::vector<TokenId> out;
  for (const char c : text) out.push_back(static_cast<std::uint8_t>(c));
  return out;
}

TEST(Tokenizer, ControlTokensInText) {
  const Chat vocab;
  const Tokenizer t = vocab.make();
  EXPECT_THAT(ids(t, "<|u|>ab</s>"), ElementsAre(vocab.user, vocab.ab, vocab.eos));
  EXPECT_THAT(ids(t, "<|u|>>"), ElementsAre(vocab.longer));  // the longest at one place
  EXPECT_EQ(ids(t, "<|u|", {.add_special = false}), bytes_of("<|u|"));
  EXPECT_EQ(ids(t, "<s>", {.add_special = false, .parse_special = false}), bytes_of("<s>"));
  EXPECT_THAT(ids(t, "<t>", {.add_special = false, .parse_special = false}), ElementsAre(vocab.tool));
  EXPECT_EQ(ids(t, ""), std::vector<TokenId>());
}

TEST(Tokenizer, WhatAUserWroteStaysText) {
  const Chat vocab;
  const Tokenizer t = vocab.make();
  const std::string text = "<s>a<|u|>b</s>";
  const auto with = [&](std::vector<ByteRange> untrusted) {
    return ids(t, text, {.add_special = false, .untrusted = untrusted});
  };
  EXPECT_THAT(with({}), ElementsAre(vocab.bos, kA, vocab.user, kB, vocab.eos));
  EXPECT_THAT(with({{4, 9}}), ElementsAre(vocab.bos, kA, '<', '|', 'u', '|', '>', kB, vocab.eos));
  // One byte of it is enough, at either end; beside it is not touching.
  EXPECT_THAT(with({{8, 9}}), ElementsAre(vocab.bos, kA, '<', '|', 'u', '|', '>', kB, vocab.eos));
  EXPECT_THAT(with({{3, 5}}), ElementsAre(vocab.bos, kA, '<', '|', 'u', '|', '>', kB, vocab.eos));
  EXPECT_THAT(with({{3, 4}, {9, 10}}), ElementsAre(vocab.bos, kA, vocab.user, kB, vocab.eos));
  EXPECT_THAT(with({{0, 3}, {4, 4}, {10, 14}}),
              ElementsAre('<', 's', '>', kA, vocab.user, kB, '<', '/', 's', '>'));
  // A shorter token may still fit before it.
  const std::vector<ByteRange> range = {{5, 6}};
  EXPECT_THAT(ids(t, "<|u|>>", {.add_special = false, .untrusted = range}), ElementsAre(vocab.user, '>'));
  // Ranges are of the bytes given, also when some are not UTF-8.
  const std::vector<ByteRange> moved = {{2, 5}};
  EXPECT_THAT(ids(t, "\xFF\xFE<s><s>", {.add_special = false, .untrusted = moved}),
              ElementsAre(0xEF, 0xBF, 0xBD, 0xEF, 0xBF, 0xBD, '<', 's', '>', vocab.bos));
}

TEST(Tokenizer, ExactlyOneBos) {  // field case 5
  Chat vocab;
  const Tokenizer t = vocab.make();
  EXPECT_TRUE(t.add_bos());
  EXPECT_THAT(ids(t, "a", {}), ElementsAre(vocab.bos, kA));
  EXPECT_THAT(ids(t, "<s>a", {}), ElementsAre(vocab.bos, kA));
  EXPECT_THAT(ids(t, "", {}), ElementsAre(vocab.bos));
  EXPECT_THAT(ids(t, " <s>", {}), ElementsAre(vocab.bos, kBlank, vocab.bos));
  const std::vector<ByteRange> user = {{0, 3}};  // written by a user: no BOS, so one is added
  EXPECT_THAT(ids(t, "<s>a", {.untrusted = user}), ElementsAre(vocab.bos, '<', 's', '>', kA));
  vocab.spec.add_eos = true;
  EXPECT_THAT(ids(vocab.make(), "<s>a", {}), ElementsAre(vocab.bos, kA, vocab.eos));
  vocab.spec.add_bos.reset();
  EXPECT_FALSE(vocab.make().add_bos());  // gpt-2's default
  EXPECT_TRUE([] {
    Chat llama("llama-bpe");
    llama.spec.add_bos.reset();
    return llama.make().add_bos();
  }());
}

TEST(Tokenizer, AnswersEndAtTheUnion) {  // field case 6
  Chat vocab;
  vocab.spec.eot = vocab.user;
  vocab.spec.extra_eos = {vocab.bos};
  const Tokenizer t = vocab.make();
  EXPECT_THAT(t.end_ids(), ElementsAre(vocab.bos, vocab.eos, vocab.user));
  EXPECT_TRUE(t.ends_generation(vocab.eos));
  EXPECT_FALSE(t.ends_generation(kA));
  EXPECT_EQ(t.piece(vocab.eos, false), "");
  EXPECT_EQ(t.piece(vocab.eos, true), "</s>");
}

TEST(Tokenizer, StrippingIsAFixedPoint) {  // field case 2
  Chat vocab;
  vocab.spec.rules[vocab.user] = {.rstrip = true};
  vocab.spec.rules[vocab.tool] = {.lstrip = true};
  vocab.spec.rules[vocab.longer] = {.single_word = true};
  const Tokenizer t = vocab.make();
  EXPECT_THAT(ids(t,
                  "a <|u|> \n\xE3\x80\x80"
                  "b"),
              ElementsAre(kA, kBlank, vocab.user, kB));
  EXPECT_THAT(ids(t, "a \t<t> b"), ElementsAre(kA, vocab.tool, kBlank, kB));
  EXPECT_THAT(ids(t, "<|u|> <t>"), ElementsAre(vocab.user, vocab.tool));
  EXPECT_EQ(ids(t, "<|u|>>a"), bytes_of("<|u|>>a"));
  EXPECT_THAT(ids(t, "<|u|>> a"), ElementsAre(vocab.longer, kBlank, kA));
  std::vector<TokenId> before = ids(t, "<s><|u|>  \n hi there </s> \n<|u|>\n again <t> </s>");
  for (int round = 0; round < 5; ++round) {
    const auto text = t.decode(before);
    ASSERT_TRUE(text.ok());
    const std::vector<TokenId> after = ids(t, *text);
    EXPECT_EQ(after, before) << *text;
    before = after;
  }
}

TEST(Tokenizer, DecodesToTheBytesEncoded) {
  std::mt19937 random(3);
  for (const char* pre : {"gpt-2", "smollm", "llama-bpe"}) {
    const Tokenizer t = Chat(pre).make();
    for (int round = 0; round < 2'000; ++round) {
      std::string text;
      for (std::size_t i = random() % 20; i-- > 0;)
        utf8_append(random() % 4 ? random() % 0x2000 : 0x4E00 + random() % 99, text);
      const auto decoded = t.decode(ids(t, text));
      ASSERT_TRUE(decoded.ok());
      EXPECT_EQ(*decoded, text);
    }
  }
}

TEST(Tokenizer, NamesAndIds) {
  const Chat vocab;
  const Tokenizer t = vocab.make();
  EXPECT_EQ(t.size(), 262);
  EXPECT_EQ(t.find("<|u|>"), vocab.user);
  EXPECT_EQ(t.find("ab"), vocab.ab);
  EXPECT_EQ(t.find("\xC4\xA0"), kBlank);  // as written: Ġ
  EXPECT_EQ(t.find("nope"), std::nullopt);
  EXPECT_EQ(t.find(""), std::nullopt);
  EXPECT_EQ(t.written(kBlank), "\xC4\xA0");
  EXPECT_EQ(t.piece(kBlank), " ");
  EXPECT_EQ(t.type(vocab.tool), TokenType::user_defined);
  for (const TokenId id : {-1, 262, 1 << 30}) {
    EXPECT_EQ(t.piece(id), "");
    EXPECT_EQ(t.written(id), "");
    EXPECT_EQ(t.type(id), TokenType::unused);
    const auto decoded = t.decode(std::vector<TokenId>{kA, id});
    ASSERT_FALSE(decoded.ok());
    EXPECT_EQ(decoded.status().code(), Code::invalid_argument);
    EXPECT_THAT(decoded.status().message(), HasSubstr(std::to_string(id)));
  }
}

TEST(StreamDecoder, CutsBetweenCharactersOnly) {  // field case 11
  const Chat vocab;
  const Tokenizer t = vocab.make();
  std::mt19937 random(5);
  for (int round = 0; round < 3'000; ++round) {
    // Bytes in any order, so that most streams hold broken characters, and whole ones.
    std::vector<TokenId> stream;
    for (std::size_t i = random() % 12; i-- > 0;) {
      switch (random() % 4) {
        case 0:
          stream.push_back(static_cast<TokenId>(random() % 256));
          break;
        case 1:
          for (const TokenId id : bytes_of("\xF0\x9F\x98\x80")) stream.push_back(id);
          break;
        case 2:
          for (const TokenId id : bytes_of("\xE4\xBD\xA0")) stream.push_back(id);
          break;
        default:
          stream.push_back(random() % 2 ? vocab.eos : vocab.ab);
      }
    }
    for (const bool special : {false, true}) {
      StreamDecoder decoder(t, special);
      std::string text;
      for (const TokenId id : stream) {
        const std::string chunk = decoder.push(id);
        EXPECT_EQ(valid_utf8_prefix(chunk), chunk.size());
        text += chunk;
      }
      text += decoder.flush();
      const std::string all = *t.decode(stream, special);
      std::string expected;
      for (const char* p = all.data(); p < all.data() + all.size();) {
        const Utf8Step step = utf8_step(p, all.data() + all.size());
        expected += step.valid ? std::string_view(p, step.length) : kReplacement;
        p += step.length;
      }
      EXPECT_EQ(text, expected);
    }
  }
}

/// create() fails with this code and a message that holds `part`.
void expect_refused(const VocabSpec& spec, Code code, std::string_view part) {
  const auto made = Tokenizer::create(spec);
  ASSERT_FALSE(made.ok()) << part;
  EXPECT_EQ(made.status().code(), code) << made.status().message();
  EXPECT_THAT(made.status().message(), HasSubstr(part));
}

TEST(Tokenizer, BadVocabulariesAreRefusedByName) {  // robustness 5
  const auto refused = [](Code code, std::string_view part, auto change) {
    Chat vocab;
    change(vocab);
    expect_refused(vocab.spec, code, part);
  };
  refused(Code::unsupported, "'rwkv'", [](Chat& v) { v.spec.model = "rwkv"; });
  refused(Code::corrupt, "262 tokens but 0 scores", [](Chat& v) { v.spec.model = "llama"; });
  refused(Code::unsupported, "nearest known is qwen2", [](Chat& v) { v.spec.pre = "qwen3"; });
  refused(Code::unsupported, "'nope'", [](Chat& v) { v.spec.pre = "nope"; });
  refused(Code::corrupt, "no tokens", [](Chat& v) { v.spec.tokens.clear(), v.spec.types.clear(); });
  refused(Code::corrupt, "261 token types", [](Chat& v) { v.spec.types.pop_back(); });
  refused(Code::corrupt, "merge 1 ('a zz')", [](Chat& v) { v.spec.merges.push_back("a zz"); });
  refused(Code::corrupt, "'ba'", [](Chat& v) { v.spec.merges.push_back("b a"); });
  refused(Code::corrupt, "merge 1 ('ab')", [](Chat& v) { v.spec.merges.push_back("ab"); });
  refused(Code::corrupt, "merge 1 ('a ')", [](Chat& v) { v.spec.merges.push_back("a "); });
  refused(Code::corrupt, "merge 1 ('')", [](Chat& v) { v.spec.merges.push_back(""); });
  refused(Code::corrupt, "merge 1 (' b')", [](Chat& v) { v.spec.merges.push_back(" b"); });
  refused(Code::corrupt, "token 262 ('<0x0>')", [](Chat& v) { v.add("<0x0>", TokenType::byte); });
  refused(Code::corrupt, "token 262 ('<0x0G>')", [](Chat& v) { v.add("<0x0G>", TokenType::byte); });
  refused(Code::corrupt, "token 262 ('<0x00A>')", [](Chat& v) { v.add("<0x00A>", TokenType::byte); });
  refused(Code::corrupt, "token 262 has 70000 bytes", [](Chat& v) { v.add(std::string(70'000, 'x')); });
  refused(Code::corrupt, "BOS token is 262", [](Chat& v) { v.spec.bos = 262; });
  refused(Code::corrupt, "EOS token is -7", [](Chat& v) { v.spec.eos = -7; });
  refused(Code::corrupt, "end token is 9999", [](Chat& v) { v.spec.extra_eos = {9999}; });
  refused(Code::corrupt, "added token is 9999", [](Chat& v) { v.spec.rules[9999] = {}; });
  const auto decoder = [](Chat& v, std::vector<std::pair<std::string, std::string>> replace) {
    v.spec.pipeline = *pipeline_of(v.spec);
    v.spec.pipeline->decoding.replace = std::move(replace);
  };
  const std::string many(200, 'a');  // twice over: 40,000
  refused(Code::unsupported, "token 97 of 1 bytes grows to 40000", [&](Chat& v) {
    decoder(v, {{"a", many}, {"a", many}});
  });
  refused(Code::unsupported, "puts in 400 bytes", [&](Chat& v) { decoder(v, {{"a", many + many}}); });
}

TEST(Tokenizer, WhatIsTolerated) {
  Chat vocab;
  const TokenId empty = vocab.add("");
  const TokenId empty_control = vocab.add("", TokenType::control);
  const TokenId first = vocab.add("c"),
                again = vocab.add("c");           // 'c' is there already: the last one is found
  vocab.spec.merges.push_back("a b");             // twice the same merge
  const TokenId raw = vocab.add("\xE4\xBD\xA0");  // outside the byte-level alphabet: its own bytes
  const TokenId byte = vocab.add("<0x0a>", TokenType::byte);
  const TokenId huge = vocab.add(std::string(5'000, '#'), TokenType::control);  // never looked for in text
  const TokenId broken = vocab.add("<\xFF>", TokenType::control);
  const Tokenizer t = vocab.make();
  EXPECT_EQ(t.piece(empty), "");
  EXPECT_EQ(t.piece(empty_control), "");
  EXPECT_NE(first, again);
  EXPECT_THAT(ids(t, "cab"), ElementsAre(again, vocab.ab));
  EXPECT_EQ(t.piece(raw), "\xE4\xBD\xA0");
  EXPECT_EQ(ids(t, "\xE4\xBD\xA0"), bytes_of("\xE4\xBD\xA0"));
  EXPECT_EQ(t.piece(byte), "\n");
  EXPECT_EQ(ids(t, t.written(huge)).size(), 5'000u);
  EXPECT_EQ(t.piece(broken, true), "<\xFF>");
}

TEST(Tokenizer, CraftedCollisionsAreRefusedQuickly) {
  // Sixteen bytes whose first eight cancel the hash's constant all hash alike: quadratic, were it not
  // refused.
  TinyVocab vocab;
  const std::uint64_t low = kMix0 ^ 16;
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    std::string bytes(16, 'x');
    std::memcpy(bytes.data(), &low, 8);
    std::memcpy(bytes.data() + 8, &i, 4);
    vocab.add(TinyVocab::write(bytes));
  }
  expect_refused(vocab.spec, Code::corrupt, "collides");
}

TEST(Tokenizer, ManyThreadsGetTheSameIds) {
  Chat vocab;
  vocab.learn("\xE4\xBD\xA0\xE5\xA5\xBD");
  vocab.learn(" hello");
  const Tokenizer t = vocab.make();
  std::string text;
  for (int i = 0; i < 300; ++i) text += " hello ab \xE4\xBD\xA0\xE5\xA5\xBD<|u|>" + std::to_string(i);
  const std::vector<TokenId> expected = ids(vocab.make(), text);
  std::vector<std::vector<TokenId>> got(8);
  std::vector<std::thread> threads;
  for (auto& out : got) threads.emplace_back([&] { out = t.encode(text, {.add_special = false}).value(); });
  for (auto& thread : threads) thread.join();
  for (const auto& out : got) EXPECT_EQ(out, expected);
}

}  // namespace
}  // namespace lithe::tokenizer
