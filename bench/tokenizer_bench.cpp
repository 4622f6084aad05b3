// Tokenising speed: tokenizer_bench MODEL.gguf FILE... prints MB/s of each text, whole and in prompts of 400 bytes.
// bench/tokenizer_compare.py sets it beside other tokenizers.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>
#include <string>

#include "base/file.h"
#include "formats/gguf.h"
#include "models/gguf_vocab.h"
#include "tokenizer/tokenizer.h"

namespace {

using Clock = std::chrono::steady_clock;

/// The least time of repeated runs within half a second, at least three.
double seconds(const std::function<void()>& work) {
  double best = 1e9;
  const auto end = Clock::now() + std::chrono::milliseconds(500);
  for (int run = 0; run < 3 || Clock::now() < end; ++run) {
    const auto start = Clock::now();
    work();
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best;
}

lithe::Status run(int argc, char** argv) {
  using namespace lithe;
  using tokenizer::Tokenizer;
  LITHE_ASSIGN_OR_RETURN(const auto file, formats::GgufFile::open(argv[1]));
  LITHE_ASSIGN_OR_RETURN(const auto spec, models::vocab_spec(file.metadata()));
  LITHE_ASSIGN_OR_RETURN(const Tokenizer tokenizer, Tokenizer::create(spec));
  std::printf("create\t%.1f ms\t%lld tokens\t%zu merges\n",
              1e3 * seconds([&] { (void)Tokenizer::create(spec); }), static_cast<long long>(tokenizer.size()),
              spec.merges.size());
  for (int i = 2; i < argc; ++i) {
    LITHE_ASSIGN_OR_RETURN(const std::string text, read_file(argv[i]));
    std::size_t ids = 0;
    const double whole =
        seconds([&] { ids = tokenizer.encode(text, {.add_special = false}).value().size(); });
    const double prompts = seconds([&] {
      for (std::size_t at = 0; at < text.size(); at += 400) {
        (void)tokenizer.encode(std::string_view(text).substr(at, 400), {.add_special = false});
      }
    });
    const double megabytes = 1e-6 * static_cast<double>(text.size());
    std::printf("%s\t%zu ids\t%.1f MB/s\t%.1f MB/s in 400-byte prompts\n", argv[i], ids, megabytes / whole,
                megabytes / prompts);
  }
  return {};
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fprintf(stderr, "usage: tokenizer_bench MODEL.gguf FILE...\n");
    return 2;
  }
  const lithe::Status status = run(argc, argv);
  if (!status.ok()) std::fprintf(stderr, "tokenizer_bench: %s\n", status.message().c_str());
  return status.ok() ? 0 : 1;
}
