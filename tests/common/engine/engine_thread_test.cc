#include "common/engine/engine_thread.h"

#include <gtest/gtest.h>

#include <atomic>
#include <latch>
#include <thread>
#include <vector>

#include "tests/common/engine/engine_harness.h"
#include "tests/common/engine/test_sequences.h"

namespace baton {
namespace {

TEST(EngineThread, ServesSubmissionsFromManyThreadsAndStopsWhenDestroyed) {
  constexpr int kThreads = 4;
  constexpr int kEach = 10;
  EngineHarness harness(EngineHarness::SmallOptions());
  const SequenceRequest request =
      LocalRequest({5, 6, 7}, {.temperature = 0, .max_tokens = 8, .ignore_eos = true});
  const std::vector<int32_t> expected = harness.RunAlone(request).token_ids();
  Engine& engine = harness.engine();
  std::atomic<int> right = 0;
  {
    std::latch ended(kThreads * kEach);
    const EngineThread thread(engine);
    std::vector<std::thread> clients;
    for (int i = 0; i < kThreads; ++i) {
      clients.emplace_back([&] {
        for (int k = 0; k < kEach; ++k) {
          SequenceRequest mine = request;
          mine.on_event = [&, tokens = std::vector<int32_t>()](const SequenceEvent& event) mutable {
            if (const auto* produced = std::get_if<TokenProduced>(&event)) {
              tokens.push_back(produced->token.token_id);
            } else if (std::holds_alternative<SequenceFinished>(event)) {
              right += tokens == expected;
              ended.count_down();
            } else if (std::holds_alternative<SequenceReleased>(event)) {
              ended.count_down();
            }
          };
          const SequenceId id = engine.NextId();
          EXPECT_TRUE(engine.Submit(id, TestSequences::Trust(std::move(mine))).ok());
          if (k % 5 == 4) engine.Release(id);
          engine.Stats();
        }
      });
    }
    for (std::thread& client : clients) client.join();
    ended.wait();
  }
  EXPECT_GE(right, kThreads * kEach * 4 / 5);
  harness.ExpectNothingHeld();
}

TEST(EngineThread, AnEventMayCallTheEngine) {
  EngineHarness harness(EngineHarness::SmallOptions());
  Engine& engine = harness.engine();
  std::latch ended(1);
  const SequenceId id = engine.NextId();
  SequenceRequest request = LocalRequest({5, 6, 7}, {.max_tokens = 400, .ignore_eos = true});
  request.on_event = [&](const SequenceEvent& event) {
    if (std::holds_alternative<TokenProduced>(event)) engine.Release(id);
    if (std::holds_alternative<SequenceReleased>(event)) ended.count_down();
  };
  const EngineThread thread(engine);
  EXPECT_TRUE(engine.Submit(id, TestSequences::Trust(std::move(request))).ok());
  ended.wait();
  EXPECT_LT(engine.Stats().generated_tokens, 400u);
}

}  // namespace
}  // namespace baton
