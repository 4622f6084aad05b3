#include "tokenizer/unicode.h"

#include <cstring>
#include <map>

namespace lithe::tokenizer {
namespace {

constexpr std::uint32_t kRuns[] = {
#include "tokenizer/unicode_data.inc"
};
constexpr std::size_t kBlock = 128;

std::uint8_t kind_of(std::uint32_t code_point, Category category) {
  if (code_point == '\r' || code_point == '\n') return kSpace | kNewline;
  if ((code_point >= '\t' && code_point <= '\r') || code_point == 0x85) return kSpace;
  if (category <= Category::Lo) return kLetter;
  if (category <= Category::Me) return kMark;
  if (category <= Category::No) return kNumber;
  if (category <= Category::Po) return kPunctuation;
  if (category <= Category::So) return kSymbol;
  return category <= Category::Zp ? kSpace : 0;
}

}  // namespace

const UnicodeTable& UnicodeTable::get() {
  static const UnicodeTable table;
  return table;
}

UnicodeTable::UnicodeTable() {
  std::map<std::string_view, std::uint16_t> known;  // a block's bytes in kinds and categories -> its number
  std::array<std::uint8_t, 2 * kBlock> block;
  categories_.reserve(512 * kBlock);
  kinds_.reserve(512 * kBlock);
  // Keys of `known` point into `blocks`, which must not move.
  std::vector<std::string> blocks;
  blocks.reserve(block_.size());

  std::size_t run = 0;
  std::uint32_t left = kRuns[0] >> 6;
  for (std::uint32_t first = 0; first < 0x110000; first += kBlock) {
    if (const std::uint32_t before = (kRuns[run] >> 6) - left; left >= kBlock && before >= kBlock) {
      block_[first >> 7] = block_[(first >> 7) - 1];  // this block and the one before lie inside one run
      left -= kBlock;
      continue;
    }
    for (std::uint32_t i = 0; i < kBlock; ++i) {
      while (left == 0) left = kRuns[++run] >> 6;
      --left;
      const auto category = static_cast<Category>(kRuns[run] & 31);
      block[i] = static_cast<std::uint8_t>(category);
      block[kBlock + i] =
          static_cast<std::uint8_t>(kind_of(first + i, category) | ((kRuns[run] & 32) ? kNfcUnsafe : 0));
    }
    const std::string_view bytes(reinterpret_cast<const char*>(block.data()), block.size());
    auto found = known.find(bytes);
    if (found == known.end()) {
      found = known.emplace(blocks.emplace_back(bytes), static_cast<std::uint16_t>(known.size())).first;
      categories_.insert(categories_.end(), block.begin(), block.begin() + kBlock);
      kinds_.insert(kinds_.end(), block.begin() + kBlock, block.end());
    }
    block_[first >> 7] = found->second;
  }
}

void utf8_append(std::uint32_t code_point, std::string& out) {
  const auto put = [&out](std::uint32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point < 0x80) {
    put(code_point);
  } else if (code_point < 0x800) {
    put(0xC0 | code_point >> 6);
    put(0x80 | (code_point & 63));
  } else if (code_point < 0x10000) {
    put(0xE0 | code_point >> 12);
    put(0x80 | (code_point >> 6 & 63));
    put(0x80 | (code_point & 63));
  } else {
    put(0xF0 | code_point >> 18);
    put(0x80 | (code_point >> 12 & 63));
    put(0x80 | (code_point >> 6 & 63));
    put(0x80 | (code_point & 63));
  }
}

Utf8Step utf8_step(const char* p, const char* end) {
  const auto byte = [p](std::ptrdiff_t i) { return static_cast<std::uint8_t>(p[i]); };
  const std::uint8_t lead = byte(0);
  if (lead < 0x80) return {1, true, false};
  if (lead < 0xC2 || lead > 0xF4) return {1, false, false};
  const std::uint32_t length = utf8_length(lead);
  // The second byte's range excludes overlong forms, surrogates and what lies beyond U+10FFFF (Unicode, table
  // 3-7).
  const std::uint8_t low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
  const std::uint8_t high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
  for (std::uint32_t i = 1; i < length; ++i) {
    if (end - p <= static_cast<std::ptrdiff_t>(i)) return {i, false, true};
    const std::uint8_t next = byte(i);
    if (next < (i == 1 ? low : 0x80) || next > (i == 1 ? high : 0xBF)) return {i, false, false};
  }
  return {length, true, false};
}

std::size_t valid_utf8_prefix(std::string_view text) {
  const char* p = text.data();
  const char* const end = p + text.size();
  while (p < end) {
    while (end - p >= 8) {  // ASCII, eight bytes at a time
      std::uint64_t word;
      std::memcpy(&word, p, 8);
      if (word & 0x8080808080808080u) break;
      p += 8;
    }
    if (p == end) break;
    const Utf8Step step = utf8_step(p, end);
    if (!step.valid) break;
    p += step.length;
  }
  return static_cast<std::size_t>(p - text.data());
}

}  // namespace lithe::tokenizer
