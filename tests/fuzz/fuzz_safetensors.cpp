// A safetensors file, or the index of several, that is anything: an error, or contents that lie inside the input and fill
// it. Both parsers see every input; the corpus has some of each.
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "formats/hf_directory.h"
#include "formats/safetensors.h"

namespace {

void visit(const lithe::formats::SafetensorsContents& contents, std::span<const std::byte> input) {
  const std::byte* expected = nullptr;
  for (const auto& tensor : contents.tensors) {
    if (tensor.name.empty()) std::abort();
    if (expected != nullptr && tensor.data.data() != expected) std::abort();
    if (tensor.data.data() < input.data()) std::abort();
    expected = tensor.data.data() + tensor.data.size();
    if (tensor.type != nullptr && tensor.elements() * tensor.type->bits != tensor.data.size() * 8)
      std::abort();
  }
  if (expected != nullptr && expected != input.data() + input.size()) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto input = std::as_bytes(std::span(data, size));
  const auto parsed = lithe::formats::parse_safetensors(input);
  if (parsed.ok()) {
    visit(*parsed, input);
  } else if (parsed.status().message().empty()) {
    std::abort();
  }
  const auto index = lithe::formats::parse_shard_index({reinterpret_cast<const char*>(data), size});
  if (!index.ok()) return 0;
  for (const auto& [tensor, file] : *index) {
    if (file.find('/') != std::string::npos || file.front() == '.') std::abort();
  }
  return 0;
}
