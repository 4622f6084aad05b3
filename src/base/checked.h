// Checked arithmetic for every size that comes from a file or a request (promise 3).
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>

namespace lithe {

/// a + b, a * b, or nothing when it does not fit.
template <std::integral T>
std::optional<T> checked_add(T a, T b) {
  T out;
  if (__builtin_add_overflow(a, b, &out)) return std::nullopt;
  return out;
}
template <std::integral T>
std::optional<T> checked_mul(T a, T b) {
  T out;
  if (__builtin_mul_overflow(a, b, &out)) return std::nullopt;
  return out;
}

/// The smallest multiple of `unit` (> 0) that is >= value, or nothing when it does not fit.
template <std::unsigned_integral T>
std::optional<T> checked_round_up(T value, T unit) {
  const auto sum = checked_add<T>(value, unit - 1);
  if (!sum) return std::nullopt;
  return *sum - *sum % unit;
}

/// For values known to be small: round_up(5, 4) = 8, ceil_div(5, 4) = 2.
template <std::integral T>
constexpr T ceil_div(T a, T b) {
  return (a + b - 1) / b;
}
template <std::integral T>
constexpr T round_up(T a, T b) {
  return ceil_div(a, b) * b;
}

}  // namespace lithe
