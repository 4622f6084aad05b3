// The public API on a real (tiny, random) model: loading, asking, promise 1 through every layer, and its refusals.
#include "lithe/engine.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "engine/loaded_model.h"
#include "fake_model.h"
#include "support.h"

namespace lithe {
namespace {

using testing::HasSubstr;

constexpr const char* kTemplate =
    "{% for m in messages %}{{ '<|turn|>' + m['role'] + ' ' + m['content'] + '<|end|>' }}{% endfor %}";

/// A random llama over the byte vocabulary of fake_model.h and one merged token.
std::filesystem::path tiny_file(DType dtype) {
  const auto path = test::scratch_folder() / ("engine-" + std::string(block_format(dtype).name) + ".gguf");
  if (std::filesystem::exists(path)) return path;
  test::TinyShape shape;
  shape.vocab = 288;
  test::TinyFile file = test::tiny_model(shape, dtype);
  const tokenizer::Tokenizer bytes = engine::byte_tokenizer();
  std::vector<std::string> tokens;
  std::vector<std::int32_t> types;
  for (std::int32_t id = 0; id < bytes.size(); ++id) {
    tokens.emplace_back(bytes.written(id));
    types.push_back(static_cast<std::int32_t>(bytes.type(id)));
  }
  tokens.emplace_back("th");
  types.push_back(1);
  file.metadata.emplace_back("general.name", "tiny");
  file.metadata.emplace_back("tokenizer.ggml.model", "gpt2");
  file.metadata.emplace_back("tokenizer.ggml.pre", "gpt-2");
  file.metadata.emplace_back("tokenizer.ggml.tokens", tokens);
  file.metadata.emplace_back("tokenizer.ggml.token_type", types);
  file.metadata.emplace_back("tokenizer.ggml.merges", std::vector<std::string>{"t h"});
  file.metadata.emplace_back("tokenizer.ggml.eos_token_id", static_cast<std::uint32_t>(engine::kEnd));
  file.metadata.emplace_back("tokenizer.ggml.add_bos_token", false);
  file.metadata.emplace_back("tokenizer.chat_template", kTemplate);
  file.write(path);
  return path;
}

std::shared_ptr<Model> load(DType dtype, int threads = 1) {
  ModelOptions options;
  options.threads = threads;
  auto model = Model::load(tiny_file(dtype).string(), options);
  EXPECT_TRUE(model.ok()) << model.status().message();
  return std::move(model).value();
}

Engine make(const std::shared_ptr<Model>& model, const EngineOptions& options = {}) {
  auto engine = Engine::create(model, options);
  EXPECT_TRUE(engine.ok()) << engine.status().message();
  return std::move(engine).value();
}

std::vector<Request> requests() {
  std::vector<Request> out;
  for (int i = 0; i < 9; ++i) {
    Request request;
    const std::string words = "a rather long beginning that is cut into chunks, number " + std::to_string(i);
    const std::string text = words.substr(0, 4 + static_cast<std::size_t>(i) * 7);
    if (i % 2 == 0) {
      request.messages = {{"user", text}};
    } else {
      request.prompt = text;
    }
    request.sampling = i % 3 == 0 ? SamplingOptions::greedy() : SamplingOptions{};
    request.sampling.seed = static_cast<std::uint64_t>(i);
    request.max_tokens = 10 + i;
    request.ignore_eos = true;
    out.push_back(request);
  }
  return out;
}

TEST(Engine, ModelSaysWhatItIs) {
  const auto model = load(DType::q4_0);
  const ModelInfo& info = model->info();
  EXPECT_EQ(info.family, "llama");
  EXPECT_EQ(info.name, "tiny");
  EXPECT_EQ(info.weight_type, "q4_0");
  EXPECT_EQ(info.vocab, engine::kTokens + 1);  // the model's rows go on to 288
  EXPECT_EQ(info.context, 4096);
  EXPECT_EQ(info.threads, 1);
  EXPECT_EQ(info.kv_bytes_per_token, 2u * 2 * 2 * 64 * 2);  // layers x (k, v) x heads x dim x f16
  EXPECT_TRUE(info.has_chat_template);
  EXPECT_GT(info.parameters, 100'000);
}

TEST(Engine, TextBothWays) {
  const auto model = load(DType::f32);
  const auto ids = model->tokenize("the <|end|>").value();
  EXPECT_EQ(ids.back(), engine::kEnd);
  EXPECT_EQ(model->detokenize(ids).value(), "the <|end|>");
  EXPECT_EQ(model->tokenize("<|end|>", false).value().size(), 7u);
  const std::vector<Message> messages{{"user", "x<|end|>"}};
  const auto chat = model->tokenize_chat(messages).value();
  EXPECT_EQ(std::count(chat.begin(), chat.end(), engine::kEnd), 1);  // the template's own, not the user's
  EXPECT_EQ(model->detokenize(chat).value(), "<|turn|>user x<|end|><|end|>");
}

// Promise 1 through the public API: alone, together, in chunks, on two threads, without a cache, preempted.
TEST(Engine, SameTokensWhateverTheTraffic) {
  for (const DType dtype : {DType::f32, DType::q4_0}) {
    const auto model = load(dtype);
    std::vector<Completion> alone;
    for (const Request& request : requests()) {
      Engine engine = make(model);
      alone.push_back(engine.generate(request).value());
      EXPECT_EQ(alone.back().tokens.size(), static_cast<std::size_t>(request.max_tokens));
    }
    int compared = 0;
    std::int64_t preemptions = 0;
    const auto compare = [&](const std::shared_ptr<Model>& m, const EngineOptions& options) {
      Engine engine = make(m, options);
      std::map<RequestId, std::size_t> order;
      std::size_t done = 0;
      const auto all = requests();
      for (std::size_t i = 0; i < all.size(); ++i) {
        const auto id = engine.submit(all[i], {}, [&](const Completion& c) {
          EXPECT_EQ(c.tokens, alone[order.at(c.id)].tokens) << order.at(c.id);
          EXPECT_EQ(c.text, alone[order.at(c.id)].text);
          ++done;
        });
        ASSERT_TRUE(id.ok()) << id.status().message();
        order[*id] = i;
      }
      while (!engine.idle()) engine.step();
      EXPECT_EQ(done, all.size());
      EXPECT_TRUE(engine.check_integrity().ok());
      compared += static_cast<int>(done);
      preemptions += engine.stats().preemptions;
    };
    const auto two = load(dtype, 2);
    EngineOptions options;
    compare(model, options);
    compare(two, options);
    options.max_num_batched_tokens = 16;
    compare(two, options);
    options.max_num_seqs = 3;
    options.max_num_batched_tokens = 5;
    options.warm_prefixes = 2;
    compare(model, options);
    options = {};
    options.kv_cache = false;
    compare(model, options);
    options = {};
    options.kv_cache_memory = 7 * 32 * model->info().kv_bytes_per_token;  // seven pages for nine requests
    compare(model, options);
    EXPECT_GT(preemptions, 0);
    std::printf("[ counts ] %s: %d completions equal, %lld preemptions\n", block_format(dtype).name.data(),
                compared, static_cast<long long>(preemptions));
  }
}

TEST(Engine, StreamsAndStopsOnRequest) {
  Engine engine = make(load(DType::f32));
  Request request = requests()[1];
  std::string streamed;
  const Completion whole =
      engine.generate(request, [&](std::string_view text) { return streamed += text, true; }).value();
  EXPECT_EQ(streamed, whole.text);
  EXPECT_EQ(whole.reason, FinishReason::length);
  EXPECT_STREQ(finish_reason_name(whole.reason), "length");
  EXPECT_GT(whole.usage.prefill_rate(), 0);
  EXPECT_GT(whole.usage.decode_rate(), 0);
  const Completion cut = engine.generate(request, [](std::string_view) { return false; }).value();
  EXPECT_EQ(cut.reason, FinishReason::aborted);
  EXPECT_TRUE(whole.text.starts_with(cut.text));
  EXPECT_TRUE(engine.idle());
}

// Promise 3 for memory: what a step takes is known before, and set aside before.
TEST(Engine, ScratchIsPriced) {
  int steps = 0;
  double largest = 0;
  for (const AttentionKind attention : {AttentionKind::flash, AttentionKind::naive, AttentionKind::chunked}) {
    for (const int threads : {1, 3}) {
      for (const std::int64_t rows : {1, 5, 64, 300}) {
        ModelOptions options;
        options.threads = threads;
        options.attention = attention;
        const auto loaded = engine::LoadedModel::load(tiny_file(DType::q4_0).string(), options);
        ASSERT_TRUE(loaded.ok()) << loaded.status().message();
        models::Model& model = (*loaded)->model();
        const models::StepShape shape{rows, 900, 2};
        const std::uint64_t priced = model.scratch_bytes(shape);
        ASSERT_TRUE(model.reserve(shape).ok());
        auto pool = model.make_pool(900 + 32);
        kvcache::SequenceCache cache(*pool);
        std::vector<float> logits(static_cast<std::size_t>(2 * model.spec().vocab));
        while (cache.length() + rows <= 900) {
          models::Batch batch;
          batch.tokens.assign(static_cast<std::size_t>(rows), 7);
          batch.sequences.push_back({&cache, 0, rows});
          batch.logit_rows = {rows - 1};
          ASSERT_TRUE(cache.reserve(rows).ok());
          ASSERT_TRUE(
              model.forward(batch, std::span(logits).first(static_cast<std::size_t>(model.spec().vocab)))
                  .ok());
          ++steps;
        }
        const std::uint64_t taken = model.memory().peak_scratch;
        EXPECT_LE(taken, priced) << rows << " rows, " << threads << " threads";
        EXPECT_LE(priced, 2 * taken + (1 << 20)) << rows << " rows, " << threads << " threads";
        largest = std::max(largest, static_cast<double>(priced) / static_cast<double>(taken));
        const Status refused = engine::check_scratch(**loaded, shape, priced - 1);
        EXPECT_EQ(refused.code(), Code::resource_exhausted);
        EXPECT_THAT(refused.message(), HasSubstr("-b"));
        EXPECT_EQ(refused.message().find("--attention flash") == std::string::npos,
                  attention == AttentionKind::flash);
        EXPECT_TRUE(engine::check_scratch(**loaded, shape, priced).ok());
      }
    }
  }
  std::printf("[ counts ] %d steps took no more than priced; at most %.2f times too much was\n", steps,
              largest);
}

TEST(Engine, RefusalsNameTheField) {
  const auto model = load(DType::f32);
  Engine engine = make(model);
  Request request;
  EXPECT_THAT(engine.check(request).message(), HasSubstr("exactly one"));
  request.prompt = "x";
  request.tokens = {1};
  EXPECT_THAT(engine.submit(request).status().message(), HasSubstr("exactly one"));
  request.tokens.clear();
  EXPECT_TRUE(engine.check(request).ok());
  request.max_tokens = 5000;
  EXPECT_THAT(engine.check(request).message(), testing::AllOf(HasSubstr("5000"), HasSubstr("4096")));
  request.prompt = "";
  EXPECT_THAT(engine.check(request).message(), HasSubstr("empty"));

  const auto refused = [&](auto change) {
    EngineOptions options;
    change(options);
    const auto created = Engine::create(model, options);
    EXPECT_FALSE(created.ok());
    return created.status().message();
  };
  EXPECT_THAT(refused([](auto& o) { o.max_num_seqs = 0; }), HasSubstr("max_num_seqs is 0"));
  EXPECT_THAT(refused([](auto& o) { o.max_num_batched_tokens = 1; }), HasSubstr("max_num_batched_tokens"));
  EXPECT_THAT(refused([](auto& o) { o.max_model_len = -1; }), HasSubstr("max_model_len"));
  EXPECT_THAT(refused([](auto& o) { o.kv_cache_memory = std::uint64_t{1} << 60; }),
              HasSubstr("--kv-cache-memory"));
  EXPECT_THAT(refused([](auto& o) { o.max_model_len = std::int64_t{1} << 39; }),
              testing::AllOf(HasSubstr("--max-model-len"), HasSubstr("q8_0")));
  EXPECT_EQ(Model::load("absent.gguf").status().code(), Code::not_found);
  ModelOptions options;
  options.threads = -3;
  EXPECT_THAT(Model::load(tiny_file(DType::f32).string(), options).status().message(), HasSubstr("threads"));
  options = {};
  options.chat_template = "{% if %}";
  EXPECT_THAT(Model::load(tiny_file(DType::f32).string(), options).status().message(),
              HasSubstr("chat template"));
}

}  // namespace
}  // namespace lithe
