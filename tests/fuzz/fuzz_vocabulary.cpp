// Vocabularies of Hugging Face's kinds: a tokenizer.json when the input begins with {, else a SentencePiece model; after a
// NUL byte (of a model: its last one) a text. Nothing may crash or hang; ids are in range; what is read is valid data.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "tokenizer/hf_json.h"
#include "tokenizer/sentencepiece_model.h"
#include "tokenizer/unicode.h"

namespace {

using namespace lithe::tokenizer;

void require(bool condition) {
  if (!condition) std::abort();
}

void check(const VocabSpec& spec, std::string_view text) {
  const auto tokenizer = Tokenizer::create(spec);
  if (!tokenizer.ok()) {
    require(valid_utf8_prefix(tokenizer.status().message()) == tokenizer.status().message().size());
    return;
  }
  const auto ids = tokenizer->encode(text);
  if (!ids.ok()) return;  // a pattern of the file's own may be too costly
  for (const TokenId id : *ids) require(id >= 0 && id < tokenizer->size());
  StreamDecoder stream(*tokenizer, true);
  for (const TokenId id : *ids) {
    const std::string chunk = stream.push(id);
    require(valid_utf8_prefix(chunk) == chunk.size());
  }
  require(tokenizer->decode(*ids).ok());
}

void check_model(std::string_view bytes, std::string_view text) {
  const auto model = parse_sentencepiece_model(bytes);
  if (!model.ok()) {
    require(valid_utf8_prefix(model.status().message()) == model.status().message().size());
    return;
  }
  VocabSpec spec;
  spec.model = model->kind == SentencePieceModel::Kind::bpe ? "llama" : "t5";
  for (const SentencePieceModel::Piece& piece : model->pieces) {
    spec.tokens.push_back(piece.text);
    spec.types.push_back(piece.type);
    spec.scores.push_back(piece.score);
  }
  spec.unk = model->unk;
  spec.bos = model->bos;
  spec.eos = model->eos;
  spec.charsmap = model->charsmap;
  spec.add_space_prefix = model->add_dummy_prefix;
  spec.remove_extra_whitespaces = model->remove_extra_whitespaces;
  check(spec, text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view input(reinterpret_cast<const char*>(data), size);
  if (input.starts_with('{')) {
    const std::size_t end = std::min(input.find('\0'), size);
    const auto file = parse_tokenizer_json(input.substr(0, end));
    if (file.ok()) check((*file)->spec, input.substr(std::min(end + 1, size)));
    if (!file.ok()) require(valid_utf8_prefix(file.status().message()) == file.status().message().size());
    return 0;
  }
  const std::size_t end = input.rfind('\0');
  if (end == std::string_view::npos) {
    check_model(input, "a b");
  } else {
    check_model(input.substr(0, end), input.substr(end + 1));
  }
  return 0;
}
