#include "engine/core.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <thread>

#include "base/rng.h"
#include "fake_model.h"

namespace lithe::engine {
namespace {

using testing::HasSubstr;

CoreOptions options(int seqs, std::int64_t budget, bool kv_cache = true, std::size_t warm = 0,
                    std::int64_t length = 200) {
  CoreOptions out;
  out.scheduler = {seqs, budget, warm};
  out.max_model_len = length;
  out.kv_cache = kv_cache;
  return out;
}

std::vector<std::int32_t> ids(std::string_view text) {
  std::vector<std::int32_t> out;
  for (const char c : text) out.push_back(static_cast<unsigned char>(c));
  return out;
}

Request request(std::int64_t max_tokens, std::optional<std::uint64_t> seed = std::nullopt) {
  Request r;
  r.max_tokens = max_tokens;
  r.sampling = seed ? SamplingOptions{} : SamplingOptions::greedy();
  r.sampling.seed = seed;
  return r;
}

struct Ask {
  std::vector<std::int32_t> prompt;
  Request request;
};

/// Runs all requests, submitted together; completions by position.
std::vector<Completion> run(FakeModel& model, const CoreOptions& opts, const std::vector<Ask>& asks,
                            EngineStats* stats = nullptr) {
  Core core(model.port(), opts);
  std::vector<Completion> done(asks.size());
  std::vector<std::string> streamed(asks.size());
  std::size_t ended = 0;
  for (std::size_t i = 0; i < asks.size(); ++i) {
    const auto id = core.submit(
        asks[i].prompt, asks[i].request,
        [&, i](std::string_view text) {
          streamed[i] += text;
          return true;
        },
        [&, i](Completion c) { done[i] = std::move(c), ++ended; });
    EXPECT_TRUE(id.ok()) << id.status().message();
  }
  for (int steps = 0; !core.idle(); ++steps) {
    core.step();
    if (steps > 1'000'000) {
      ADD_FAILURE() << "no end in sight";
      break;
    }
  }
  EXPECT_EQ(ended, asks.size());
  for (std::size_t i = 0; i < asks.size(); ++i) EXPECT_EQ(streamed[i], done[i].text);
  if (stats != nullptr) *stats = core.stats();
  return done;
}

Completion run_one(FakeModel& model, const std::string& prompt, const Request& r) {
  return run(model, options(1, 16), {{ids(prompt), r}}).front();
}

std::vector<Ask> mixed_asks(int count) {
  std::vector<Ask> asks;
  Rng rng(5);
  for (int i = 0; i < count; ++i) {
    std::vector<std::int32_t> prompt;
    for (std::uint64_t n = 1 + rng.next_u64() % 40; n > 0; --n)
      prompt.push_back(static_cast<std::int32_t>(rng.next_u64() % 256));
    auto seed = i % 3 == 0 ? std::nullopt : std::optional<std::uint64_t>(static_cast<std::uint64_t>(i));
    asks.push_back({prompt, request(1 + static_cast<std::int64_t>(rng.next_u64() % 30), seed)});
    if (i % 4 == 1) asks.back().request.sampling.repetition_penalty = 1.3f;
  }
  return asks;
}

std::vector<Completion> answered_alone(const std::vector<Ask>& asks) {
  std::vector<Completion> alone;
  for (const Ask& ask : asks) {
    FakeModel model(64);
    alone.push_back(run(model, options(1, 1000), {ask}).front());
  }
  return alone;
}

// Promise 1 at the engine's level: alone = batched = chunked = preempted = without a cache.
TEST(Core, SameTokensWhateverTheTraffic) {
  const auto asks = mixed_asks(14);
  const std::vector<Completion> alone = answered_alone(asks);
  std::int64_t compared = 0, preemptions = 0;
  for (const std::int64_t pages : {18, 25, 64, 1000}) {
    for (const int seqs : {1, 2, 5, 14}) {
      for (const std::int64_t budget : {14, 17, 64, 1000}) {
        for (const bool kv_cache : {true, false}) {
          for (const std::size_t warm : {0u, 3u}) {
            FakeModel model(pages);
            EngineStats stats;
            const auto together = run(model, options(seqs, budget, kv_cache, warm), asks, &stats);
            for (std::size_t i = 0; i < asks.size(); ++i) {
              ASSERT_EQ(together[i].tokens, alone[i].tokens) << i << " pages " << pages << " seqs " << seqs
                                                             << " budget " << budget << " cache " << kv_cache;
              ASSERT_EQ(together[i].text, alone[i].text);
              ASSERT_EQ(together[i].reason, FinishReason::length);
              ++compared;
            }
            EXPECT_LE(model.largest_batch, budget);
            EXPECT_TRUE(model.pool.check_integrity().ok());
            EXPECT_EQ(model.pool.free(), model.pool.total());  // the core is gone, warm prefixes too
            preemptions += stats.preemptions;
          }
        }
      }
    }
  }
  EXPECT_GT(preemptions, 100);
  std::printf("[ counts ] %lld completions equal, %lld preemptions\n", static_cast<long long>(compared),
              static_cast<long long>(preemptions));
}

TEST(Core, SameSeedSameTextAndTheSeedIsReported) {  // field case 13
  FakeModel model(64);
  std::vector<std::string> texts;
  for (int i = 0; i < 5; ++i) {
    auto r = request(20, 42);
    r.sampling.temperature = 0.9f;
    const Completion c = run_one(model, "hello", r);
    EXPECT_EQ(c.seed, 42u);
    texts.push_back(c.text);
  }
  EXPECT_THAT(texts, testing::Each(texts[0]));
  EXPECT_NE(run_one(model, "hello", request(20, 43)).text, texts[0]);
  auto unseeded = request(20, 1);
  unseeded.sampling.seed.reset();
  const Completion first = run_one(model, "hello", unseeded), second = run_one(model, "hello", unseeded);
  EXPECT_NE(first.seed, second.seed);
  unseeded.sampling.seed = first.seed;
  EXPECT_EQ(run_one(model, "hello", unseeded).text, first.text);
}

/// A script that continues the prompt with `text`, then ends with `end`.
auto says(std::size_t prompt, std::vector<std::int32_t> text, std::int32_t end) {
  return [=](const std::vector<std::int32_t>& seen) -> std::optional<std::int32_t> {
    const std::size_t at = seen.size() - prompt;
    return at < text.size() ? text[at] : end;
  };
}

TEST(Core, StopsAtAnyOfTheEndTokensAndShowsNone) {  // field case 6
  for (const std::int32_t end : {kEnd, kTurnEnd, kThirdEnd}) {
    FakeModel model(64);
    model.script = says(1, ids("done"), end);
    const Completion c = run_one(model, "?", request(50));
    EXPECT_EQ(c.text, "done");
    EXPECT_EQ(c.tokens, ids("done"));
    EXPECT_EQ(c.reason, FinishReason::stop);
    EXPECT_EQ(c.usage.completion_tokens, 5);
  }
}

TEST(Core, IgnoreEosAndMinTokens) {
  FakeModel model(64);
  model.script = says(1, ids("ab"), kEnd);
  auto r = request(10);
  r.ignore_eos = true;
  EXPECT_EQ(run_one(model, "?", r).reason, FinishReason::length);
  EXPECT_EQ(run_one(model, "?", r).tokens.size(), 10u);
  r = request(10);
  r.min_tokens = 5;
  const Completion c = run_one(model, "?", r);
  EXPECT_EQ(c.reason, FinishReason::stop);
  EXPECT_EQ(c.tokens.size(), 5u);
  r = request(10);
  r.stop_token_ids = {'b'};
  EXPECT_EQ(run_one(model, "?", r).text, "a");
}

TEST(Core, StopStringsAcrossTokens) {  // field case 10
  FakeModel model(64);
  model.script = says(1, ids("ABCDEFGHIJKLM"), kEnd);
  auto r = request(50);
  r.stop = {"DEFGHIJ"};
  const Completion c = run_one(model, "?", r);
  EXPECT_EQ(c.text, "ABC");
  EXPECT_EQ(c.reason, FinishReason::stop);
  r.stop = {"LMN"};  // begins, never completes: nothing is lost
  EXPECT_EQ(run_one(model, "?", r).text, "ABCDEFGHIJKLM");
}

bool valid_utf8(std::string_view s) {
  for (std::size_t i = 0; i < s.size();) {
    const auto c = static_cast<unsigned char>(s[i]);
    const std::size_t n = c < 0x80 ? 1 : c >> 5 == 6 ? 2 : c >> 4 == 14 ? 3 : c >> 3 == 30 ? 4 : 0;
    if (n == 0 || i + n > s.size()) return false;
    for (std::size_t k = 1; k < n; ++k) {
      if ((static_cast<unsigned char>(s[i + k]) & 0xc0) != 0x80) return false;
    }
    i += n;
  }
  return true;
}

TEST(Core, ChunksAreWholeCharacters) {  // field case 11
  const std::string text = "naïve 你好 👩‍👧 end";
  FakeModel model(64);
  model.script = says(1, ids(text), kEnd);
  Core core(model.port(), options(1, 16));
  std::string all;
  int chunks = 0;
  ASSERT_TRUE(core.submit(ids("?"), request(100),
                          [&](std::string_view chunk) {
                            EXPECT_TRUE(valid_utf8(chunk));
                            EXPECT_FALSE(chunk.empty());
                            all += chunk;
                            ++chunks;
                            return true;
                          },
                          {})
                  .ok());
  while (!core.idle()) core.step();
  EXPECT_EQ(all, text);
  EXPECT_GT(chunks, 10);
  model.script = says(1, ids("ok\xe4\xbd"), kEnd);  // ends inside a character
  EXPECT_TRUE(valid_utf8(run_one(model, "?", request(100)).text));
}

TEST(Core, ARequestIsPricedBeforeAnyWork) {  // field cases 16 and 19
  FakeModel model(5);                        // 20 tokens
  Core core(model.port(), options(2, 16, true, 0, 40));
  const auto fault = [&](const std::string& prompt, const Request& r) {
    const auto id = core.submit(ids(prompt), r, {}, {});
    EXPECT_FALSE(id.ok());
    EXPECT_EQ(id.status().code(), Code::invalid_argument);
    return id.status().message();
  };
  EXPECT_THAT(fault(std::string(41, 'x'), request(-1)), testing::AllOf(HasSubstr("41"), HasSubstr("40")));
  EXPECT_THAT(fault(std::string(41, 'x'), request(5)), testing::AllOf(HasSubstr("41"), HasSubstr("40")));
  EXPECT_THAT(fault(std::string(40, 'x'), request(-1)), HasSubstr("--max-model-len"));
  EXPECT_THAT(fault(std::string(15, 'x'), request(6)),
              testing::AllOf(HasSubstr("15"), HasSubstr("20 tokens")));
  EXPECT_THAT(fault("x", request(std::numeric_limits<std::int64_t>::max())), HasSubstr("exceed"));
  EXPECT_THAT(fault("", request(1)), HasSubstr("empty"));
  EXPECT_THAT(fault("x", request(-2)), HasSubstr("max_tokens"));
  auto r = request(5);
  r.sampling.top_p = -1;
  EXPECT_THAT(fault("x", r), HasSubstr("top_p"));
  r = request(5);
  r.min_tokens = 6;
  EXPECT_THAT(fault("x", r), HasSubstr("min_tokens"));
  r = request(5);
  r.stop_token_ids = {9999};
  EXPECT_THAT(fault("x", r), HasSubstr("stop_token_ids"));
  EXPECT_EQ(model.calls, 0);
  EXPECT_TRUE(core.idle());
  // Without a limit the answer takes what the pool has.
  EXPECT_EQ(run(model, options(1, 16, true, 0, 40), {{ids("abc"), request(-1)}}).front().tokens.size(), 17u);
}

TEST(Core, NoTokenAndOneToken) {
  FakeModel model(64);
  const Completion none = run_one(model, "abc", request(0));
  EXPECT_EQ(none.reason, FinishReason::length);
  EXPECT_EQ(none.text, "");
  EXPECT_EQ(model.calls, 0);
  EXPECT_EQ(run_one(model, "abc", request(1)).tokens.size(), 1u);
}

TEST(Core, PaddedRowsAreNeverChosenAndRowlessTokensRefused) {  // field case 26
  FakeModel padded(64, kTokens + 47);
  padded.spoil = [](const auto&, std::span<float> logits) {
    for (std::size_t i = static_cast<std::size_t>(kTokens); i < logits.size(); ++i) logits[i] = 1000;
  };
  for (const std::int32_t id : run_one(padded, "abc", request(30)).tokens) EXPECT_LT(id, kTokens);

  FakeModel short_table(64, kTokens - 1);
  Core core(short_table.port(), options(1, 16));
  const auto id = core.submit({'a', kRowless}, request(5), {}, {});
  ASSERT_FALSE(id.ok());
  EXPECT_THAT(id.status().message(), testing::AllOf(HasSubstr("259"), HasSubstr("<|rowless|>")));
  EXPECT_FALSE(core.submit({'a', -1}, request(5), {}, {}).ok());
  EXPECT_EQ(run_one(short_table, "abc", request(5)).tokens.size(), 5u);
}

TEST(Core, BrokenLogitsFailTheirRequestAlone) {
  const auto asks = mixed_asks(6);
  FakeModel clean(200);
  const auto expected = run(clean, options(6, 64), asks);
  FakeModel model(200);
  const auto victim = asks[2].prompt;
  model.spoil = [&](const std::vector<std::int32_t>& seen, std::span<float> logits) {
    if (seen.size() == victim.size() + 1 && std::equal(victim.begin(), victim.end(), seen.begin())) {
      logits[7] = std::numeric_limits<float>::quiet_NaN();
    }
  };
  const auto got = run(model, options(6, 64), asks);
  for (std::size_t i = 0; i < asks.size(); ++i) {
    if (i == 2) {
      EXPECT_EQ(got[i].reason, FinishReason::failed);
      EXPECT_THAT(got[i].status.message(), HasSubstr("NaN"));
    } else {
      EXPECT_EQ(got[i].text, expected[i].text);
    }
  }
  EXPECT_EQ(model.pool.free(), model.pool.total());
}

TEST(Core, AForwardThatFailsEndsItsRequests) {
  FakeModel model(64);
  Core core(model.port(), options(2, 16));
  int failed = 0;
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE(core.submit(ids("abc"), request(5), {},
                            [&](const Completion& c) {
                              failed +=
                                  c.reason == FinishReason::failed && c.status.message() == "out of luck";
                            })
                    .ok());
  }
  model.fault = Status(Code::internal, "out of luck");
  while (!core.idle()) core.step();
  EXPECT_EQ(failed, 3);
  EXPECT_EQ(model.pool.free(), model.pool.total());
}

TEST(Core, CancelRunningQueuedAndByCallback) {  // field case 18
  FakeModel model(64);
  Core core(model.port(), options(1, 16));
  std::map<RequestId, FinishReason> ended;
  const auto done = [&](const Completion& c) { EXPECT_TRUE(ended.emplace(c.id, c.reason).second); };
  bool queued_spoke = false;
  const auto running = core.submit(ids("abc"), request(100), {}, done).value();
  const auto queued =
      core.submit(
              ids("abc"), request(100), [&](std::string_view) { return queued_spoke = true; }, done)
          .value();
  int heard = 0;
  const auto last = core.submit(
                            ids("xyz"), request(100), [&](std::string_view) { return ++heard < 3; }, done)
                        .value();
  for (int i = 0; i < 5; ++i) core.step();
  std::thread([&] { core.cancel(queued), core.cancel(running), core.cancel(999); }).join();
  core.step();
  EXPECT_EQ(ended.at(running), FinishReason::aborted);
  EXPECT_EQ(ended.at(queued), FinishReason::aborted);
  EXPECT_FALSE(queued_spoke);
  while (!core.idle()) core.step();
  EXPECT_EQ(ended.at(last), FinishReason::aborted);
  EXPECT_EQ(heard, 3);
  EXPECT_EQ(model.pool.free(), model.pool.total());
}

TEST(Core, AWarmPrefixIsReusedAndChangesNothing) {
  const std::string first = "the quick brown fox", second = first + " jumps over the lazy dog";
  FakeModel cold(64), model(64);
  const std::string expected = run_one(cold, second, request(12)).text;
  Core core(model.port(), options(2, 16, true, 2));
  std::vector<Completion> done;
  const auto ask = [&](const std::string& prompt) {
    ASSERT_TRUE(
        core.submit(ids(prompt), request(12), {}, [&](Completion c) { done.push_back(std::move(c)); }).ok());
    while (!core.idle()) core.step();
  };
  ask(first);
  ask(second);
  EXPECT_EQ(done[1].text, expected);
  EXPECT_EQ(done[1].usage.cached_tokens, static_cast<std::int64_t>(first.size()));
  ask(second);  // the whole prompt is known: its last token is computed all the same
  EXPECT_EQ(done[2].text, expected);
  EXPECT_EQ(done[2].usage.cached_tokens, static_cast<std::int64_t>(second.size()) - 1);
  ask(first);  // field case 20: a short prefix of what is cached
  EXPECT_EQ(done[3].text, done[0].text);
  ask("no relation");
  EXPECT_EQ(done[4].usage.cached_tokens, 0);
  EXPECT_TRUE(model.pool.check_integrity().ok());
}

// A state goes with its sequence through chunks, neighbours, preemption and warm prefixes; the model reads nothing else.
TEST(Core, RecurrentStatesChangeNoToken) {
  const auto asks = mixed_asks(14);
  const std::vector<Completion> alone = answered_alone(asks);
  std::int64_t compared = 0, preemptions = 0;
  for (const std::int64_t pages : {18, 25, 1000}) {
    for (const int seqs : {1, 5, 14}) {
      for (const bool kv_cache : {true, false}) {
        for (const std::size_t warm : {0u, 3u}) {
          FakeModel model(pages, kTokens, true);
          EngineStats stats;
          const auto together = run(model, options(seqs, 17, kv_cache, warm), asks, &stats);
          for (std::size_t i = 0; i < asks.size(); ++i) {
            ASSERT_EQ(together[i].tokens, alone[i].tokens) << i << " pages " << pages << " seqs " << seqs;
            ++compared;
          }
          preemptions += stats.preemptions;
        }
      }
    }
  }
  EXPECT_GT(preemptions, 20);
  std::printf("[ counts ] %lld completions equal, %lld preemptions\n", static_cast<long long>(compared),
              static_cast<long long>(preemptions));
}

// A state serves a text that goes on from all it has seen, and no other: it does not go back to where two texts part.
TEST(Core, ARecurrentPrefixIsReusedWholeOrNotAtAll) {
  const std::string first = "the quick brown fox";
  FakeModel model(64, kTokens, true);
  Core core(model.port(), options(2, 16, true, 2));
  const auto ask = [&](const std::vector<std::int32_t>& prompt) {
    Completion done;
    EXPECT_TRUE(core.submit(prompt, request(12), {}, [&](Completion c) { done = std::move(c); }).ok());
    while (!core.idle()) core.step();
    FakeModel cold(64);
    EXPECT_EQ(done.tokens, run(cold, options(1, 1000), {{prompt, request(12)}}).front().tokens);
    return done;
  };
  const auto answered = [](std::vector<std::int32_t> prompt, const Completion& done) {
    prompt.insert(prompt.end(), done.tokens.begin(), done.tokens.end());
    return prompt;
  };
  const Completion one = ask(ids(first));
  auto turn = answered(ids(first), one);  // a conversation goes on: the state has seen all but the last token
  turn.push_back('?');
  const Completion two = ask(turn);
  EXPECT_EQ(two.usage.cached_tokens, static_cast<std::int64_t>(turn.size()) - 2);
  EXPECT_EQ(ask(ids(first)).usage.cached_tokens, 0);
  EXPECT_EQ(ask(ids(first + " parts here")).usage.cached_tokens, 0);
  EXPECT_TRUE(model.pool.check_integrity().ok());
}

TEST(Core, AFailedAdmissionLeavesNoCachedTokensBehind) {
  FakeModel model(8);  // 32 tokens
  Core core(model.port(), options(2, 64, true, 1));
  std::map<RequestId, Completion> done;
  const auto submit = [&](const std::string& prompt, int answer) {
    const auto keep = [&](Completion c) { done[c.id] = std::move(c); };
    return core.submit(ids(prompt), request(answer), {}, keep).value();
  };
  submit("abcdefgh", 1);
  while (!core.idle()) core.step();  // warm from here on
  submit("0123456789ABCDEFGHIJ", 4);
  const auto waiting =
      submit("abcdefgh-abcdefgh", 1);  // begins warm, but does not fit: the warm prefix is dropped
  core.step();
  EXPECT_EQ(core.stats().waiting, 1);
  while (!core.idle()) core.step();
  EXPECT_EQ(done.at(waiting).usage.cached_tokens, 0);
}

TEST(Core, UsageAddsUp) {
  FakeModel model(64);
  const Completion c = run_one(model, "0123456789", request(7));
  EXPECT_EQ(c.usage.prompt_tokens, 10);
  EXPECT_EQ(c.usage.completion_tokens, 7);
  EXPECT_GT(c.usage.prefill_seconds, 0);
  EXPECT_GT(c.usage.decode_seconds, 0);
  EXPECT_EQ(c.usage.kv_bytes, 4 * FakeModel::kPageBytes);  // 16 tokens: the last one's were not computed
}

// Random arrivals, cancels, stops and limits on a small pool: each request ends exactly once, pages add up throughout.
TEST(Core, Chaos) {
  FakeModel model(40);
  std::map<RequestId, int> ended;
  Rng rng(77);
  const auto below = [&](std::uint64_t n) { return static_cast<std::int64_t>(rng.next_u64() % n); };
  std::int64_t submitted = 0, refused = 0;
  {
    Core core(model.port(), options(6, 24, true, 2, 100));
    std::vector<RequestId> ids_seen;
    for (int round = 0; round < 3000; ++round) {
      if (below(4) == 0) {
        auto r = request(below(30), static_cast<std::uint64_t>(round));
        if (below(3) == 0) r.stop = {std::string(1, static_cast<char>('a' + below(26)))};
        r.sampling.temperature = 2;
        std::vector<std::int32_t> prompt(static_cast<std::size_t>(below(120)), 'p');
        for (auto& id : prompt) id = static_cast<std::int32_t>('a' + below(3));
        const bool hang_up = below(10) == 0;
        const auto id = core.submit(
            prompt, r, [hang_up](std::string_view) { return !hang_up; },
            [&](const Completion& c) { ++ended[c.id]; });
        if (id.ok()) {
          ++submitted;
          ids_seen.push_back(*id);
        } else {
          ++refused;
        }
      }
      if (!ids_seen.empty() && below(20) == 0)
        core.cancel(ids_seen[static_cast<std::size_t>(below(ids_seen.size()))]);
      core.step();
      ASSERT_TRUE(model.pool.check_integrity().ok());
    }
    while (!core.idle()) core.step();
    std::printf("[ counts ] %lld requests, %lld refused, %lld steps, %lld preemptions\n",
                static_cast<long long>(submitted), static_cast<long long>(refused),
                static_cast<long long>(core.stats().steps), static_cast<long long>(core.stats().preemptions));
  }
  EXPECT_EQ(static_cast<std::int64_t>(ended.size()), submitted);
  for (const auto& [id, times] : ended) EXPECT_EQ(times, 1) << id;
  EXPECT_GT(submitted, 300);
  EXPECT_GT(refused, 10);
  EXPECT_EQ(model.pool.free(), model.pool.total());
  EXPECT_LE(model.largest_batch, 24);
}

}  // namespace
}  // namespace lithe::engine
