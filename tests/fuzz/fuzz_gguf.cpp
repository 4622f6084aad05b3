// parse_gguf on anything: an error or contents whose every reference lies inside the input.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

#include "formats/gguf.h"

namespace {

using lithe::formats::GgufContents;
using lithe::formats::GgufTensor;

std::uint64_t sink = 0;

// Reads the first and last byte, so that a sanitizer sees a reference that leaves the input.
void touch(const std::byte* data, std::size_t size) {
  if (size > 0)
    sink += std::to_integer<std::uint64_t>(data[0]) + std::to_integer<std::uint64_t>(data[size - 1]);
}

void touch(std::string_view text) {
  touch(reinterpret_cast<const std::byte*>(text.data()), text.size());
}

void decode_first_block(const GgufTensor& tensor) {
  if (tensor.format == nullptr) return;
  float values[256];
  tensor.format->decode(tensor.data.data(), tensor.format->block_elems, values);
}

void visit(const GgufContents& contents) {
  if (contents.pairs.size() != contents.metadata.size()) std::abort();
  for (const auto& pair : contents.pairs) {
    touch(pair.key);
    touch(pair.value.data(), pair.value.size());
  }
  for (const auto& [key, value] : contents.metadata) {
    if (const auto* text = std::get_if<std::string_view>(&value)) touch(*text);
    if (const auto* texts = std::get_if<std::vector<std::string_view>>(&value)) {
      for (const auto text : *texts) touch(text);
    }
  }
  for (const GgufTensor& tensor : contents.tensors) {
    if (tensor.data.size() != tensor.elements() / tensor.type().block_elems * tensor.type().block_bytes)
      std::abort();
    touch(tensor.name);
    touch(tensor.data.data(), tensor.data.size());
    decode_first_block(tensor);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const auto parsed = lithe::formats::parse_gguf(std::as_bytes(std::span(data, size)));
  if (parsed.ok()) {
    visit(*parsed);
  } else if (parsed.status().message().empty()) {
    std::abort();  // every error says what is wrong
  }
  return 0;
}
