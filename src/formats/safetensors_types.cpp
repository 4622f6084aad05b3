#include <algorithm>
#include <array>

#include "formats/safetensors.h"

namespace lithe::formats {
namespace {

constexpr std::array kTypes = {
    SafetensorsType{"F32", 32, DType::f32},
    SafetensorsType{"F16", 16, DType::f16},
    SafetensorsType{"BF16", 16, DType::bf16},
    SafetensorsType{"F64", 64, {}},
    SafetensorsType{"F8_E4M3", 8, {}},
    SafetensorsType{"F8_E5M2", 8, {}},
    SafetensorsType{"I64", 64, {}},
    SafetensorsType{"I32", 32, {}},
    SafetensorsType{"I16", 16, {}},
    SafetensorsType{"I8", 8, {}},
    SafetensorsType{"U8", 8, {}},
    SafetensorsType{"BOOL", 8, {}},
    // Newer ones: listed, and checked for their size.
    SafetensorsType{"U64", 64, {}},
    SafetensorsType{"U32", 32, {}},
    SafetensorsType{"U16", 16, {}},
    SafetensorsType{"C64", 64, {}},
    SafetensorsType{"F8_E8M0", 8, {}},
    SafetensorsType{"F8_E4M3FNUZ", 8, {}},
    SafetensorsType{"F8_E5M2FNUZ", 8, {}},
    SafetensorsType{"F6_E2M3", 6, {}},
    SafetensorsType{"F6_E3M2", 6, {}},
    SafetensorsType{"F4", 4, {}},
};

template <typename Test>
const SafetensorsType* find_type(Test test) {
  const auto found = std::find_if(kTypes.begin(), kTypes.end(), test);
  return found == kTypes.end() ? nullptr : &*found;
}

}  // namespace

const SafetensorsType* find_safetensors_type(std::string_view name) {
  return find_type([&](const SafetensorsType& type) { return type.name == name; });
}

const SafetensorsType* find_safetensors_type(DType dtype) {
  return find_type([&](const SafetensorsType& type) { return type.dtype == dtype; });
}

std::uint64_t SafetensorsTensor::elements() const {
  std::uint64_t count = 1;
  for (const std::uint64_t dim : shape) count *= dim;
  return count;
}

}  // namespace lithe::formats
