// A hash of short byte strings and of pairs, for the tables of a vocabulary. Not keyed: the tables are built
// from one model file, and a crafted one can at worst slow its own loading (probing is bounded by the table).
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

namespace lithe::tokenizer {

/// The high and low half of a 64 x 64 bit product, folded: mixes every bit of both into all bits.
inline std::uint64_t fold_multiply(std::uint64_t a, std::uint64_t b) {
  const auto product = static_cast<unsigned __int128>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

inline constexpr std::uint64_t kMix0 = 0x9E3779B97F4A7C15u,
                               kMix1 = 0xD1B54A32D192ED03u;  // odd, without pattern

inline std::uint64_t load_u64(const char* p) {
  std::uint64_t value;
  std::memcpy(&value, p, 8);
  return value;
}
inline std::uint64_t load_u32(const char* p) {
  std::uint32_t value;
  std::memcpy(&value, p, 4);
  return value;
}

/// At most 8 bytes as one number, zero beyond them.
inline std::uint64_t load_up_to_8(const char* p, std::size_t size) {
  if (size >= 8) return load_u64(p);
  if (size >= 4) return load_u32(p) | load_u32(p + size - 4) << (8 * (size - 4));
  if (size == 0) return 0;
  const auto at = [p](std::size_t i) { return static_cast<std::uint64_t>(static_cast<std::uint8_t>(p[i])); };
  return at(0) | at(size / 2) << (8 * (size / 2)) | at(size - 1) << (8 * (size - 1));
}

inline constexpr std::uint64_t kNoHash = 0;  // never the hash of anything
inline constexpr std::uint64_t kHashBit = std::uint64_t{1} << 63;

/// Up to 16 bytes, zero-padded to two words.
inline std::uint64_t hash_words(std::uint64_t low, std::uint64_t high, std::size_t size) {
  return fold_multiply(low ^ kMix0 ^ size, high ^ kMix1) | kHashBit;
}

inline std::uint64_t hash_bytes(std::string_view bytes) {
  const char* p = bytes.data();
  std::size_t left = bytes.size();
  if (left <= 8) return hash_words(load_up_to_8(p, left), 0, left);
  if (left <= 16) return hash_words(load_u64(p), load_up_to_8(p + 8, left - 8), left);
  std::uint64_t state = kMix0 ^ left;
  for (; left > 16; p += 16, left -= 16) state = fold_multiply(state ^ load_u64(p), load_u64(p + 8) ^ kMix1);
  return fold_multiply(state ^ load_u64(p + left - 16), load_u64(p + left - 8) ^ kMix1) | kHashBit;
}

}  // namespace lithe::tokenizer
