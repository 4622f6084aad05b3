// The numbers of the GGUF format shared by reader and writer: internal to src/formats.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace lithe::formats::wire {

inline constexpr std::string_view kMagic = "GGUF";
inline constexpr std::uint32_t kMinVersion = 2, kMaxVersion = 3;
inline constexpr std::uint64_t kDefaultAlignment = 32;
inline constexpr std::uint64_t kMinAlignment = 8, kMaxAlignment = 1u << 20;
inline constexpr std::uint32_t kMaxDims = 4;
inline constexpr std::string_view kAlignmentKey = "general.alignment";

/// Types of a metadata value.
enum ValueType : std::uint32_t {
  kU8,
  kI8,
  kU16,
  kI16,
  kU32,
  kI32,
  kF32,
  kBool,
  kString,
  kArray,
  kU64,
  kI64,
  kF64,
  kValueTypes
};

/// Bytes of a value of a fixed size; 8 for a string (its length), 12 for an array (its element type and
/// count): the least that an element can take.
inline constexpr std::array<std::uint32_t, kValueTypes> kValueBytes = {1, 1, 2,  2, 4, 4, 4,
                                                                       1, 8, 12, 8, 8, 8};

inline constexpr std::array<std::string_view, kValueTypes> kValueNames = {
    "u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"};

}  // namespace lithe::formats::wire
