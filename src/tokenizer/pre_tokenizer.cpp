#include "tokenizer/pre_tokenizer.h"

#include <algorithm>
#include <utility>

#include "tokenizer/splitters.h"

namespace lithe::tokenizer {
namespace {

constexpr const char* kGpt2 = R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";
constexpr const char* kLlama3 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|)"
                                R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";
constexpr const char* kQwen2 = R"((?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}|)"
                               R"( ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+)";

constexpr PreTokenizerRow kRows[] = {
    {.names = {"gpt-2", "gpt2"}, .patterns = {kGpt2}, .split = split_gpt2},
    {.names = {"smollm"}, .patterns = {R"(\p{N})", kGpt2}, .split = split_smollm},
    {.names = {"llama-bpe", "llama3", "llama-v3"},
     .patterns = {kLlama3},
     .split = split_llama3,
     .ignore_merges = true,
     .add_bos = true},
    {.names = {"qwen2"}, .patterns = {kQwen2}, .split = split_qwen2, .nfc = true},
};

}  // namespace

std::span<const PreTokenizerRow> pre_tokenizer_rows() {
  return kRows;
}

const PreTokenizerRow* find_pre_tokenizer(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const PreTokenizerRow& row : kRows) {
    if (std::find(row.names.begin(), row.names.end(), name) != row.names.end()) return &row;
  }
  return nullptr;
}

Result<PreTokenizer> PreTokenizer::create(const PreTokenizerRow& row) {
  PreTokenizer pre;
  pre.row_ = &row;
  if (row.split == nullptr) {
    LITHE_ASSIGN_OR_RETURN(PatternSplitter patterns, PatternSplitter::create(row));
    pre.patterns_.push_back(std::move(patterns));
  }
  return pre;
}

}  // namespace lithe::tokenizer
