// Hand-written splitters: each equals the patterns of its row in pre_tokenizer.cpp, many times faster.
#pragma once

#include <cstddef>
#include <span>

namespace lithe::tokenizer {

std::size_t split_gpt2(const char* begin, const char* end, std::span<const char*> ends);
std::size_t split_smollm(const char* begin, const char* end, std::span<const char*> ends);
std::size_t split_llama3(const char* begin, const char* end, std::span<const char*> ends);
std::size_t split_qwen2(const char* begin, const char* end, std::span<const char*> ends);

}  // namespace lithe::tokenizer
