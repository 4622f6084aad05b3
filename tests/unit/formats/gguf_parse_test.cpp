// Lies of every kind: each must be an error with the right name in it, at once, whatever the size it claims.
#include <gtest/gtest.h>

#include <chrono>
#include <cstdio>
#include <functional>

#include "base/rng.h"
#include "formats/gguf.h"
#include "gguf_bytes.h"

namespace lithe::formats {
namespace {

constexpr std::uint32_t kU8 = 0, kU32 = 4, kI32 = 5, kF32 = 6, kBool = 7, kString = 8, kArray = 9, kU64 = 10;

// A small right file: three tensors, a vocabulary, an alignment.
GgufBytes good_file(std::uint32_t version = 3) {
  GgufBytes out;
  out.head(3, 4, version);
  out.key("general.architecture", kString).string("llama");
  out.key("general.alignment", kU32).number<std::uint32_t>(32);
  out.key("tokenizer.ggml.tokens", kArray)
      .number(kString)
      .number<std::uint64_t>(3)
      .string("a")
      .string("b")
      .string("");
  out.key("llama.rope.freq_base", kF32).number(10000.0f);
  out.tensor("token_embd.weight", {32, 3}, 8, 0);      // Q8_0: 3 x 34 = 102 bytes, padded to 128
  out.tensor("output_norm.weight", {32}, 0, 128);      // F32: 128 bytes
  out.tensor("blk.0.attn_q.weight", {32, 2}, 1, 256);  // F16: 128 bytes
  return out.pad().zeros(384);
}

TEST(GgufParse, ReadsAGoodFileOfBothVersions) {
  for (const std::uint32_t version : {2u, 3u}) {
    const auto file = good_file(version);
    const auto parsed = parse_gguf(file.bytes());
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(parsed->version, version);
    EXPECT_EQ(parsed->tensors.size(), 3u);
    EXPECT_EQ(std::get<std::string_view>(parsed->metadata.at("general.architecture")), "llama");
    EXPECT_EQ(std::get<std::vector<std::string_view>>(parsed->metadata.at("tokenizer.ggml.tokens")).size(),
              3u);
    EXPECT_EQ(std::get<double>(parsed->metadata.at("llama.rope.freq_base")), 10000.0);
    EXPECT_EQ(parsed->pairs.front().key, "general.architecture");
    EXPECT_EQ(parsed->tensors[0].data.size(), 102u);
    EXPECT_EQ(parsed->tensors[0].format, &block_format(DType::q8_0));
    EXPECT_EQ(parsed->tensors[2].data.data() - file.bytes().data(),
              static_cast<std::ptrdiff_t>(file.text().size() - 128));
    EXPECT_EQ(parsed->tensors[2].elements(), 64u);
  }
}

struct Lie {
  const char* name;
  Code code;
  const char* message;  // a part of it
  GgufBytes bytes;
};

GgufBytes one_pair(const std::function<void(GgufBytes&)>& fill) {
  GgufBytes out;
  out.head(0, 1);
  fill(out);
  return out;
}

GgufBytes one_tensor(std::vector<std::uint64_t> dims, std::uint32_t type, std::uint64_t offset,
                     std::size_t data = 4096) {
  GgufBytes out;
  out.head(1, 0).tensor("the.tensor", std::move(dims), type, offset);
  return out.pad().zeros(data);
}

GgufBytes alignment(std::uint32_t type, std::uint64_t value) {
  return one_pair([&](GgufBytes& out) {
    out.key("general.alignment", type);
    if (type == kU64) {
      out.number(value);
    } else {
      out.number(static_cast<std::uint32_t>(value));
    }
  });
}

std::vector<Lie> lies() {
  constexpr std::uint64_t kHuge = std::uint64_t{1} << 63;
  std::vector<Lie> out;
  const auto add = [&](const char* name, Code code, const char* message, GgufBytes bytes) {
    out.push_back({name, code, message, std::move(bytes)});
  };
  const auto bad = Code::corrupt, odd = Code::unsupported;
  add("empty", bad, "empty", {});
  add("magic only", bad, "after the magic", GgufBytes().raw("GGUF"));
  add("half a magic", bad, "not a GGUF", GgufBytes().raw("GG"));
  add("another format", bad, "not a GGUF",
      GgufBytes().raw("\x7f"
                      "ELF....................."));
  add("git lfs", bad, "git lfs pull",
      GgufBytes().raw("version https://git-lfs.github.com/spec/v1\noid sha256:00"));
  add("web page", bad, "web page", GgufBytes().raw("<!DOCTYPE html><html>"));
  add("safetensors", odd, "safetensors", GgufBytes().number<std::uint64_t>(64).raw("{\"__metadata__\":{}}"));
  add("ggjt", odd, "before GGUF", GgufBytes().raw("tjgg\1\0\0\0"));
  add("version 0", odd, "version 0", GgufBytes().head(0, 0, 0));
  add("version 1", odd, "version 1", GgufBytes().head(0, 0, 1));
  add("version 4", odd, "version 4", GgufBytes().head(0, 0, 4));
  add("big-endian", odd, "big-endian GGUF file (version 3)", GgufBytes().head(0, 0, 0x03000000));
  add("header cut", bad, "within its header",
      GgufBytes().raw("GGUF").number<std::uint32_t>(3).number<std::uint64_t>(1));
  add("2^63 pairs", bad, "metadata pairs", GgufBytes().head(0, kHuge));
  add("2^64-1 tensors", bad, "tensors", GgufBytes().head(~std::uint64_t{0}, 0));
  add("one pair too many", bad, "metadata pairs", GgufBytes().head(0, 1));
  add("tensors eaten by pairs", bad, "after key 'k'",
      GgufBytes().head(2, 1).key("k", kString).string(std::string(60, 'x')));
  add("key of 2^63 bytes", bad, "key of metadata pair 1",
      one_pair([](GgufBytes& o) { o.number(kHuge).zeros(20); }));
  add("empty key", bad, "key of 0 bytes", one_pair([](GgufBytes& o) { o.key("", kU8).zeros(9); }));
  add("string of 2^63 bytes", bad, "'s'",
      one_pair([](GgufBytes& o) { o.key("s", kString).number(kHuge).zeros(20); }));
  add("string one too long", bad, "'s'",
      one_pair([](GgufBytes& o) { o.key("s", kString).number<std::uint64_t>(3).raw("ab"); }));
  add("unknown value type", bad, "type 13", one_pair([](GgufBytes& o) { o.key("x", 13).zeros(20); }));
  add("array of 2^63", bad, "claims 9223372036854775808 elements",
      one_pair([](GgufBytes& o) { o.key("a", kArray).number(kU8).number(kHuge); }));
  add("array of 2^61 u64", bad, "elements of type u64",
      one_pair([](GgufBytes& o) { o.key("a", kArray).number(kU64).number(kHuge >> 2).zeros(8); }));
  add("strings one too many", bad, "elements of type string",
      one_pair([](GgufBytes& o) { o.key("a", kArray).number(kString).number<std::uint64_t>(3).zeros(16); }));
  add("a string inside cut", bad, "element 1 of 2", one_pair([](GgufBytes& o) {
        o.key("a", kArray).number(kString).number<std::uint64_t>(2).string("x").number<std::uint64_t>(9);
      }));
  add("nested array", odd, "array of arrays",
      one_pair([](GgufBytes& o) { o.key("a", kArray).number(kArray).number<std::uint64_t>(1).zeros(32); }));
  add("array of unknown", bad, "type 99",
      one_pair([](GgufBytes& o) { o.key("a", kArray).number(99).number(kHuge); }));
  add("bool of 2", bad, "0 or 1", one_pair([](GgufBytes& o) { o.key("b", kBool).raw("\2"); }));
  add("bools of 2", bad, "0 or 1",
      one_pair([](GgufBytes& o) { o.key("b", kArray).number(kBool).number<std::uint64_t>(2).raw("\1\2"); }));
  add("duplicate key", bad, "'twice' appears twice",
      GgufBytes().head(0, 2).key("twice", kI32).number(1).key("twice", kI32).number(2));
  for (const std::uint32_t value : {0u, 1u, 4u, 13u, 33u, 1u << 31}) {
    add("alignment", bad, "general.alignment is", alignment(kU32, value));
  }
  add("alignment of 64 bits", bad, "must be a u32, not a u64", alignment(kU64, 32));
  add("tensor name cut", bad, "name of tensor 1", GgufBytes().head(1, 0).number(kHuge).zeros(30));
  add("tensor without name", bad, "has no name", GgufBytes().head(1, 0).tensor("", {32}, 0, 0).zeros(256));
  add("tensor info cut", bad, "'the.tensor'",
      GgufBytes().head(1, 0).string("the.tensor").number<std::uint32_t>(3).zeros(20));
  add("5 dimensions", odd, "5 dimensions", one_tensor({1, 1, 1, 1, 1}, 0, 0));
  add("2^32-1 dimensions", odd, "4294967295 dimensions",
      GgufBytes().head(1, 0).string("the.tensor").number(~0u).zeros(64));
  add("dimension 0", bad, "dimension of 0", one_tensor({32, 0}, 0, 0));
  add("2^42+1 squared", bad, "overflows", one_tensor({(1ull << 42) + 1, (1ull << 42) + 1}, 0, 0));
  add("2^62 f32", bad, "overflows", one_tensor({1ull << 62}, 0, 0));
  add("2^61 f32 at the end", bad, "does not fit", one_tensor({1ull << 61}, 0, 0));
  add("dimensions of 2^16 each", bad, "overflows", one_tensor({1 << 16, 1 << 16, 1 << 16, 1 << 16}, 0, 0));
  add("no whole blocks", bad, "no multiple of the 32", one_tensor({31, 32}, 8, 0));
  add("no whole K blocks", bad, "no multiple of the 256", one_tensor({576, 4}, 12, 0));
  for (const std::uint32_t type : {4u, 5u, 31u, 36u, 43u, 99u, ~0u})
    add("tensor type", odd, "has type", one_tensor({32}, type, 0));
  add("unaligned offset", bad, "no multiple of the alignment", one_tensor({32}, 0, 16));
  add("gap before the first", bad, "with a gap after the start", one_tensor({32}, 0, 32));
  add("offset of 2^64-32", bad, "gap", one_tensor({32}, 0, ~std::uint64_t{31}));
  add("one byte short", bad, "'the.tensor' does not fit", one_tensor({32}, 0, 0, 127));
  add("padding cut", bad, "within the padding after tensor 'the.tensor'", one_tensor({33}, 0, 0, 159));
  add("duplicate tensor", bad, "'t' appears twice",
      GgufBytes().head(2, 0).tensor("t", {8}, 0, 0).tensor("t", {8}, 0, 32).pad().zeros(64));
  add("overlap", bad, "inside 'a'",
      GgufBytes().head(2, 0).tensor("a", {16}, 0, 0).tensor("b", {8}, 0, 32).pad().zeros(96));
  add("same offset", bad, "inside 'a'",
      GgufBytes().head(2, 0).tensor("a", {8}, 0, 0).tensor("b", {8}, 0, 0).pad().zeros(96));
  add("gap", bad, "with a gap after 'a'",
      GgufBytes().head(2, 0).tensor("a", {8}, 0, 0).tensor("b", {8}, 0, 64).pad().zeros(96));
  add("escape in a name", bad, "'\\x1b[2J\\n' appears twice",
      GgufBytes().head(0, 2).key("\x1b[2J\n", kU8).raw("1").key("\x1b[2J\n", kU8).raw("1"));
  return out;
}

TEST(GgufParse, EveryLieIsAnErrorWithinAMillisecond) {
  double slowest = 0.0;
  const auto all = lies();
  for (const Lie& lie : all) {
    double best = 1e9;  // of a few runs: the machine may be busy
    for (int run = 0; run < 5; ++run) {
      const auto begin = std::chrono::steady_clock::now();
      const auto parsed = parse_gguf(lie.bytes.bytes());
      best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
      ASSERT_FALSE(parsed.ok()) << lie.name;
      EXPECT_EQ(parsed.status().code(), lie.code) << lie.name << ": " << parsed.status().message();
      EXPECT_NE(parsed.status().message().find(lie.message), std::string::npos)
          << lie.name << ": " << parsed.status().message();
    }
    EXPECT_LT(best, 1e-3) << lie.name;
    slowest = std::max(slowest, best);
  }
  std::printf("[ counts ] %zu lies refused, the slowest in %.3f ms\n", all.size(), slowest * 1e3);
}

TEST(GgufParse, AcceptsWhatIsOddButWellFormed) {
  EXPECT_TRUE(parse_gguf(GgufBytes().head(0, 0).bytes()).ok()) << "nothing at all";
  EXPECT_TRUE(parse_gguf(one_tensor({}, 0, 0).bytes()).ok()) << "a scalar, and data behind it";
  EXPECT_TRUE(parse_gguf(one_tensor({33}, 0, 0, 132).bytes()).ok()) << "a last tensor without padding";
  EXPECT_TRUE(parse_gguf(one_tensor({256}, 16, 0, 66).bytes()).ok()) << "IQ2_XXS, which we only decode";
  const auto unordered =
      GgufBytes().head(2, 0).tensor("b", {8}, 0, 32).tensor("a", {8}, 0, 0).pad().zeros(64);
  const auto parsed = parse_gguf(unordered.bytes());
  ASSERT_TRUE(parsed.ok());
  EXPECT_EQ(parsed->tensors[0].name, "b");
  EXPECT_EQ(parsed->tensors[0].data.data() - parsed->tensors[1].data.data(), 32);
  const auto vocabulary = one_pair([](GgufBytes& o) {
    o.key("a", kArray).number(kString).number<std::uint64_t>(0);  // an empty array, and no data at all
  });
  EXPECT_TRUE(parse_gguf(vocabulary.bytes()).ok());
}

TEST(GgufParse, TypesAgreeWithTheFormatsWeRun) {
  for (const BlockFormat& format : block_formats()) {
    const GgufType* type = find_gguf_type(format.gguf_id);
    ASSERT_NE(type, nullptr);
    EXPECT_EQ(find_format(type->name), &format);
    EXPECT_EQ(type->block_elems, static_cast<std::uint32_t>(format.block_elems));
    EXPECT_EQ(type->block_bytes, static_cast<std::uint32_t>(format.block_bytes));
  }
}

// Every read stays inside an exact-size heap copy: the address sanitizer sees a single byte beyond.
TEST(GgufParse, EveryTruncationIsAnError) {
  const auto file = good_file();
  int cuts = 0;
  for (std::size_t size = 0; size < file.text().size(); ++size) {
    const std::vector<char> cut(file.text().begin(), file.text().begin() + static_cast<std::ptrdiff_t>(size));
    const auto parsed = parse_gguf(std::as_bytes(std::span(cut)));
    ASSERT_FALSE(parsed.ok()) << "cut to " << size << " of " << file.text().size();
    if (size > file.text().size() - 128) {
      EXPECT_NE(parsed.status().message().find("'blk.0.attn_q.weight'"), std::string::npos)
          << parsed.status().message();
    }
    ++cuts;
  }
  std::printf("[ counts ] %d truncations refused\n", cuts);
}

TEST(GgufParse, EveryFlippedBitOfTheHeaderIsRefusedOrHarmless) {
  const auto file = good_file();
  const std::size_t header = file.text().size() - 384;
  int refused = 0, accepted = 0;
  for (std::size_t bit = 0; bit < header * 8; ++bit) {
    std::vector<char> flipped(file.text().begin(), file.text().end());
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << bit % 8));
    const auto parsed = parse_gguf(std::as_bytes(std::span(flipped)));
    if (!parsed.ok()) {
      ++refused;
      continue;
    }
    ++accepted;  // the bit of a name or a value
    for (const GgufTensor& tensor : parsed->tensors) {
      const auto begin = tensor.data.data() - reinterpret_cast<const std::byte*>(flipped.data());
      ASSERT_GE(begin, 0);
      ASSERT_LE(static_cast<std::size_t>(begin) + tensor.data.size(), flipped.size());
    }
  }
  EXPECT_GT(refused, accepted / 2);
  std::printf("[ counts ] %d bits: %d refused, %d read as another value\n", refused + accepted, refused,
              accepted);
}

TEST(GgufParse, RandomDamageNeverEscapes) {
  const auto file = good_file();
  Rng rng(11);
  int accepted = 0;
  for (int round = 0; round < 20000; ++round) {
    std::vector<char> damaged(file.text().begin(), file.text().end());
    const int hits = 1 + static_cast<int>(rng.next_u64() % 4);
    for (int i = 0; i < hits; ++i) {
      damaged[rng.next_u64() % (damaged.size() - 384)] = static_cast<char>(rng.next_u64());
    }
    accepted += parse_gguf(std::as_bytes(std::span(damaged))).ok();
  }
  std::printf("[ counts ] 20000 damaged files, %d still well-formed\n", accepted);
}

TEST(GgufParse, AVocabularyOf150000TokensTakesMilliseconds) {
  constexpr std::uint64_t kTokens = 150000;
  GgufBytes out;
  out.head(0, 2);
  for (const char* key : {"tokenizer.ggml.tokens", "tokenizer.ggml.merges"}) {
    out.key(key, kArray).number(kString).number(kTokens);
    for (std::uint64_t i = 0; i < kTokens; ++i) out.string("token " + std::to_string(i));
  }
  double best = 1e9;
  for (int run = 0; run < 5; ++run) {
    const auto begin = std::chrono::steady_clock::now();
    const auto parsed = parse_gguf(out.bytes());
    best = std::min(best, std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    ASSERT_TRUE(parsed.ok());
    EXPECT_EQ(std::get<std::vector<std::string_view>>(parsed->metadata.at("tokenizer.ggml.merges")).back(),
              "token 149999");
  }
  std::printf("[ counts ] %llu strings in %.1f ms\n", 2ull * kTokens, best * 1e3);
  EXPECT_LT(best, 0.1);  // 3 ms alone; a sanitizer on a busy machine needs more
}

}  // namespace
}  // namespace lithe::formats
