#include "models/parameters.h"

#include <cmath>
#include <limits>

namespace lithe::models {

std::string Parameters::full_name(std::string_view key) const {
  return fmt::format("{}.{}", architecture_, key);
}

Result<std::int64_t> Parameters::integer(std::string_view key, std::int64_t least, std::int64_t most) const {
  const std::string name = full_name(key);
  LITHE_ASSIGN_OR_RETURN(const auto value, metadata_->optional_uint(name));
  if (!value) return corrupt("the file does not state {}", name);
  return integer_or(key, least, most, 0);
}

Result<std::int64_t> Parameters::integer_or(std::string_view key, std::int64_t least, std::int64_t most,
                                            std::int64_t fallback) const {
  const std::string name = full_name(key);
  LITHE_ASSIGN_OR_RETURN(const auto value, metadata_->optional_uint(name));
  if (!value) return fallback;
  if (*value > static_cast<std::uint64_t>(most) || static_cast<std::int64_t>(*value) < least) {
    return corrupt("{} = {} is out of range: {} to {}", name, *value, least, most);
  }
  return static_cast<std::int64_t>(*value);
}

Result<std::vector<std::int64_t>> Parameters::integers(std::string_view key, std::int64_t least,
                                                       std::int64_t most, std::size_t count) const {
  const std::string name = full_name(key);
  const auto* stated = metadata_->int_array(name);
  if (stated == nullptr) {
    LITHE_ASSIGN_OR_RETURN(const std::int64_t all, integer(key, least, most));
    return std::vector<std::int64_t>(count, all);
  }
  if (stated->size() != count) return corrupt("{} has {} entries for {} layers", name, stated->size(), count);
  for (const std::int64_t value : *stated) {
    if (value < least || value > most)
      return corrupt("{} holds {}, out of range: {} to {}", name, value, least, most);
  }
  return *stated;
}

Result<double> Parameters::real_or(std::string_view key, double least, double most, double fallback) const {
  const std::string name = full_name(key);
  LITHE_ASSIGN_OR_RETURN(const auto value, metadata_->optional_float(name));
  if (!value) return fallback;
  if (!(*value >= least && *value <= most)) {  // NaN too
    return corrupt("{} = {} is out of range: {} to {}", name, *value, least, most);
  }
  return *value;
}

Result<bool> Parameters::flag_or(std::string_view key, bool fallback) const {
  LITHE_ASSIGN_OR_RETURN(const auto value, metadata_->optional_bool(full_name(key)));
  return value.value_or(fallback);
}

Result<std::vector<bool>> Parameters::flags_or(std::string_view key, std::size_t count) const {
  const std::string name = full_name(key);
  std::vector<bool> flags;
  if (const auto* stated = metadata_->bool_array(name)) {
    flags = *stated;
  } else if (const auto* numbers = metadata_->int_array(name)) {
    for (const std::int64_t number : *numbers) flags.push_back(number != 0);
  } else {
    return flags;
  }
  if (flags.size() != count) return corrupt("{} has {} entries for {} layers", name, flags.size(), count);
  return flags;
}

Result<std::string> Parameters::text_or(std::string_view key, std::string_view fallback) const {
  LITHE_ASSIGN_OR_RETURN(const auto value, metadata_->optional_string(full_name(key)));
  return std::string(value.value_or(fallback));
}

}  // namespace lithe::models
