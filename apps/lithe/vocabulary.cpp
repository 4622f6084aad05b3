#include "vocabulary.h"

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/file.h"
#include "formats/gguf.h"
#include "model_flags.h"
#include "models/gguf_vocab.h"

namespace lithe::app {

Result<tokenizer::Tokenizer> load_tokenizer(const std::string& model) {
  ModelFlags flags;
  flags.model = model;
  LITHE_ASSIGN_OR_RETURN(const std::string path, flags.path());
  LITHE_ASSIGN_OR_RETURN(const formats::GgufFile file, formats::GgufFile::open(path));
  LITHE_ASSIGN_OR_RETURN(const tokenizer::VocabSpec spec, models::vocab_spec(file));
  auto made = tokenizer::Tokenizer::create(spec);
  if (!made.ok()) return std::move(made).status().with_context(path);
  return made;
}

Result<std::string> read_input(const std::string& path) {
  constexpr std::size_t kLimit = std::size_t{1} << 31;
  if (path != "-") return read_file(path, kLimit);
  std::string text;
  char chunk[1 << 16];
  while (const std::size_t got = std::fread(chunk, 1, sizeof chunk, stdin)) {
    text.append(chunk, got);
    if (text.size() >= kLimit) return invalid("more than {} bytes on stdin", kLimit - 1);
  }
  if (std::ferror(stdin)) return io_error("cannot read stdin: {}", std::strerror(errno));
  return text;
}

}  // namespace lithe::app
