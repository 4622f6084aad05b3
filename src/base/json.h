// JSON from files and servers: untrusted, so its size, depth and number of values are bounded before anything is built.
#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string_view>

#include "base/status.h"

namespace lithe {

/// Not ordered_json, which finds and adds a key by walking all of them: a vocabulary has hundreds of thousands.
using Json = nlohmann::json;

struct JsonLimits {
  std::size_t bytes = std::size_t{1} << 20;
  std::size_t depth = 64;
  std::size_t values = std::size_t{1} << 23;  // keys not counted; each costs about 100 bytes at the most
};

/// A whole document. Python's Infinity, -Infinity and NaN, which configurations of state space models contain, are read as
/// the largest double, its negative and null. A key that appears twice: the last one counts, as in Python.
/// corrupt: not JSON, or not UTF-8, with the place; unsupported: beyond a limit.
Result<Json> parse_json(std::string_view text, const JsonLimits& limits = {});

/// The member `key` of an object, or null (the pointer): not an object, or no such key.
const Json* find_member(const Json& object, std::string_view key);

}  // namespace lithe
