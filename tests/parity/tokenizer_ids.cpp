// For tests/oracle/check_real_vocabularies.py: ids of many strings in one process.
// tokenizer_ids MODEL.gguf|tokenizer.json < strings, each as a 32-bit little-endian length and its bytes; a line of ids for each.
#include <cstdio>
#include <cstring>
#include <iterator>
#include <string>
#include <vector>

#include "base/file.h"
#include "formats/gguf.h"
#include "models/gguf_vocab.h"
#include "tokenizer/hf_json.h"
#include "tokenizer/tokenizer.h"

namespace {

lithe::Result<lithe::tokenizer::Tokenizer> open(const std::string& path) {
  using namespace lithe;
  if (path.ends_with(".json")) {
    LITHE_ASSIGN_OR_RETURN(const std::string text, read_file(path));
    LITHE_ASSIGN_OR_RETURN(const auto file, tokenizer::parse_tokenizer_json(text));
    return tokenizer::Tokenizer::create(file->spec);
  }
  LITHE_ASSIGN_OR_RETURN(const auto file, formats::GgufFile::open(path));
  LITHE_ASSIGN_OR_RETURN(const auto spec, models::vocab_spec(file.metadata()));
  return tokenizer::Tokenizer::create(spec);
}

lithe::Status run(const char* path) {
  using namespace lithe;
  LITHE_ASSIGN_OR_RETURN(const auto tokenizer, open(path));
  std::uint8_t size[4];
  std::string text;
  while (std::fread(size, 1, 4, stdin) == 4) {
    text.resize(size[0] | size[1] << 8 | size[2] << 16 | std::size_t{size[3]} << 24);
    if (std::fread(text.data(), 1, text.size(), stdin) != text.size())
      return invalid("the input ends in a string");
    LITHE_ASSIGN_OR_RETURN(const auto ids, tokenizer.encode(text, {.add_special = false}));
    for (const auto id : ids) std::printf("%d ", id);
    std::printf("\n");
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: tokenizer_ids MODEL.gguf|tokenizer.json < strings\n");
    return 2;
  }
  const lithe::Status status = run(argv[1]);
  if (!status.ok()) std::fprintf(stderr, "tokenizer_ids: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
