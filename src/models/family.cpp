#include "models/family.h"

#include <array>

namespace lithe::models {

// A function's static, not a namespace's: other files' constants may not be there yet when ours are made.
std::span<const Family> families() {
  static const std::array all{kLlama, kQwen2, kQwen3};
  return all;
}

Result<const Family*> find_family(std::string_view name) {
  std::string known;
  for (const Family& family : families()) {
    if (family.name == name) return &family;
    known += known.empty() ? "" : ", ";
    known += family.name;
  }
  return unsupported("architecture '{}' is not one that Lithe runs (those are: {})", name, known);
}

}  // namespace lithe::models
