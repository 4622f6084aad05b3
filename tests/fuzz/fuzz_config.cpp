// A config.json, read by every family: nothing may crash, hang or allocate what the bytes do not justify. What a family
// accepts describes a model whose tensors have lengths, and is described again by what it became.
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "base/json.h"
#include "models/family.h"

namespace {

using namespace lithe;
using namespace lithe::models;

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const Family& family, const Json& json) {
  HfConfig config(json, family.name);
  if (!family.translate(config).ok()) return;
  const auto metadata = config.metadata.build();
  require(metadata.ok());
  const auto spec = family.describe(Parameters(*metadata, family.name));
  if (!spec.ok()) return;
  require(!spec->layers.empty() && spec->hidden > 0 && spec->context > 0);
  for (const WeightEntry& entry : family.weights(*spec)) {
    for (const LayerSpec& layer : {spec->layers.front(), spec->layers.back()}) {
      if (!entry.lies_in(layer)) continue;
      require(dim_length(entry.rows, *spec, layer) >= 0 && dim_length(entry.cols, *spec, layer) >= 0);
      require(dim_length(entry.stack, *spec, layer) >= 0);
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto json = parse_json({reinterpret_cast<const char*>(data), size});
  if (!json.ok()) return 0;
  for (const Family& family : families()) check(family, *json);
  return 0;
}
