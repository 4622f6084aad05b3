// Which files of a repository make a model. Pure; serves the hub's listing and a folder of the cache alike.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"

namespace lithe::hub {

/// Each with an initializer, so that naming some of them is enough.
struct Wanted {
  std::string type{};  // "Q4_K_M": the GGUF file of this type, all of its parts
  std::string file{};  // one file by its name, with the other parts if it is one of a split
  std::vector<std::string> include{}, exclude{};  // patterns; exclude goes over everything but `file`
};

struct Selection {
  std::vector<std::string> files;  // sorted
  std::string model;               // what a MODEL argument means: a GGUF's (first) file; empty: the folder
  std::string note;                // why this one, where there was a choice
};

/// With nothing wanted: safetensors with all that belongs to them; else the one GGUF, or of several Q4_K_M, Q4_0, Q8_0.
/// not_found: no such file or type, with those there are; unsupported: pickles only; invalid: the type fits several.
Result<Selection> select_files(const std::vector<std::string>& names, const Wanted& wanted);

}  // namespace lithe::hub
