// Asks a model one question through the public API.  Usage: embed MODEL.gguf PROMPT
#include <cstdio>
#include <string_view>

#include "lithe/engine.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: embed MODEL.gguf PROMPT\n");
    return 2;
  }
  auto model = lithe::Model::load(argv[1]);
  if (!model.ok()) {
    std::fprintf(stderr, "%s\n", model.status().message().c_str());
    return 1;
  }
  auto engine = lithe::Engine::create(model.value());
  if (!engine.ok()) {
    std::fprintf(stderr, "%s\n", engine.status().message().c_str());
    return 1;
  }
  lithe::Request request;
  request.prompt = argv[2];
  request.max_tokens = 8;
  request.sampling.temperature = 0;
  const auto answer = engine->generate(request, [](std::string_view text) {
    std::fwrite(text.data(), 1, text.size(), stdout);
    return true;
  });
  std::fputs("\n", stdout);
  return answer.ok() ? 0 : 1;
}
