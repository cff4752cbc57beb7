// A prefix that is found instead of computed changes nothing that comes out: neither tokens nor the
// bits of logits and KV; nor does being preempted, at whatever step.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <utility>
#include <vector>

#include "tests/common/engine/engine_harness.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;

// As many logprobs as there can be: any logit that differs moves all of them.
SamplingParams Sampling(int max_tokens, uint64_t seed) {
  return {.temperature = seed % 2 == 0 ? 0.0f : 0.9f,
          .frequency_penalty = 0.1f,
          .max_tokens = max_tokens,
          .seed = seed,
          .ignore_eos = true,
          .logprobs = 20};
}

EngineHarness::Options With(KvType dtype, int block_size, bool caching) {
  EngineHarness::Options options = EngineHarness::SmallOptions();
  options.engine.kv_dtype = dtype;
  options.engine.block_size = block_size;
  options.engine.num_kv_blocks = 2048 / block_size;
  options.engine.enable_prefix_caching = caching;
  return options;
}

// The KV bytes of `token_count` tokens, row by row.
std::vector<uint8_t> KvBytes(const KvCache& cache, const std::vector<int32_t>& table,
                             int token_count) {
  const KvLayout& layout = cache.layout();
  std::vector<uint8_t> bytes;
  for (int layer = 0; layer < layout.layers; ++layer) {
    for (KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
      for (int token = 0; token < token_count; ++token) {
        const uint8_t* row = cache.Block(table[static_cast<size_t>(token / layout.block_size)]) +
                             layout.RowOffset(layer, part, token % layout.block_size);
        bytes.insert(bytes.end(), row, row + layout.row_bytes());
      }
    }
  }
  return bytes;
}

TEST(PrefixReuse, TokensAndLogitBitsAreThoseOfARunWithoutTheCache) {
  std::mt19937 random(1);
  const std::vector<int32_t> text = RandomTokens(random, 300);
  for (KvType dtype : {KvType::kF32, KvType::kF16, KvType::kBf16}) {
    for (int block_size : {16, 48}) {
      EngineHarness plain(With(dtype, block_size, false));
      EngineHarness caching(With(dtype, block_size, true));
      for (uint64_t i = 0; i < 6; ++i) {
        // Beginnings of one text, with ends of their own: hits of every length.
        std::vector<int32_t> tokens(text.begin(), text.begin() + static_cast<int>(random() % 300));
        for (int32_t token : RandomTokens(random, 1 + static_cast<int>(random() % 40))) {
          tokens.push_back(token);
        }
        const SequenceRequest request = LocalRequest(tokens, Sampling(6, i));
        ExpectSameTokens(caching.RunAlone(request).tokens, plain.RunAlone(request).tokens);
      }
      EXPECT_GT(caching.engine().Stats().prompt_tokens_cached, 100u);
      EXPECT_EQ(plain.engine().Stats().prompt_tokens_cached, 0u);
      EXPECT_GT(caching.engine().Stats().cached_blocks, 0);
      caching.ExpectNothingHeld();
    }
  }
}

TEST(PrefixReuse, AHitIsToldAndCountedAndChunksStillEndOnMultiplesOf64) {
  std::mt19937 random(2);
  EngineHarness harness(With(KvType::kF32, 16, true));
  const SequenceRequest request = LocalRequest(RandomTokens(random, 300), Sampling(1, 0));
  harness.RunAlone(request);
  SequenceRequest longer = request;
  longer.token_ids.resize(112);  // 7 blocks
  for (int32_t token : RandomTokens(random, 188)) longer.token_ids.push_back(token);
  int admitted = -1, started = -1;
  const SequenceId id = harness.Submit(longer, [&](const SequenceEvent& event) {
    if (const auto* e = std::get_if<SequenceAdmitted>(&event)) admitted = e->cached_tokens;
    if (const auto* e = std::get_if<PrefillStarted>(&event)) started = e->cached_tokens;
  });
  harness.Run();
  EXPECT_EQ(admitted, 112);
  EXPECT_EQ(started, 112);
  EXPECT_THAT(harness.log(id).chunk_ends, testing::ElementsAre(192, 300));
  EXPECT_EQ(harness.engine().Stats().prompt_tokens_cached, 112u);
  EXPECT_EQ(harness.engine().Stats().prompt_tokens_computed, 300u + 188u);
  // The last token is computed even if all are there.
  EXPECT_THAT(harness.RunAlone(longer).chunk_ends, testing::ElementsAre(300));
  EXPECT_EQ(harness.engine().Stats().prompt_tokens_computed, 300u + 188u + 12u);
}

TEST(PrefixReuse, OtherSaltsAndInexactKvAreNotFound) {
  std::mt19937 random(3);
  EngineHarness harness(With(KvType::kF32, 16, true));
  SequenceRequest request = LocalRequest(RandomTokens(random, 100), Sampling(1, 0));
  request.cache_salt = "a";
  harness.RunAlone(request);
  request.cache_salt = "b";
  harness.RunAlone(request);
  EXPECT_EQ(harness.engine().Stats().prompt_tokens_cached, 0u);

  for (const bool exact : {false, true}) {
    SequenceRequest received = LocalRequest(RandomTokens(random, 100), Sampling(3, 0));
    received.mode = Mode::kReceive;
    const SequenceId id = harness.Submit(received);
    harness.Run();
    harness.engine().OpenReceive(id, exact ? "" : "another's");
    harness.Run();
    harness.engine().Commit(id, {{.output_index = 0, .token_id = 5}});
    harness.Run();
    EXPECT_TRUE(harness.log(id).finished);
    received.mode = Mode::kLocal;
    harness.RunAlone(received);
    EXPECT_EQ(harness.engine().Stats().prompt_tokens_cached, exact ? 96u : 0u);
  }
}

// What P has cached D may lack: the pages are all there, with their CRCs, as if computed just now.
TEST(PrefixReuse, APrefillWithAHitHoldsTheSamePagesAndCrcs) {
  std::mt19937 random(4);
  EngineHarness plain(With(KvType::kF16, 32, false));
  EngineHarness caching(With(KvType::kF16, 32, true));
  // Its blocks are made by chunks and by decode steps.
  const SequenceRequest seen = LocalRequest(RandomTokens(random, 70), Sampling(60, 1));
  std::vector<int32_t> tokens = seen.token_ids;
  for (int32_t token : caching.RunAlone(seen).token_ids()) tokens.push_back(token);
  for (int32_t token : RandomTokens(random, 75)) tokens.push_back(token);
  SequenceRequest request = LocalRequest(tokens, Sampling(1, 0));
  request.mode = Mode::kPrefillOnly;

  const SequenceId expected = plain.Submit(request);
  plain.Run();
  int first_token = -1;
  const SequenceId id = caching.Submit(request, [&](const SequenceEvent& event) {
    const auto* layer = std::get_if<LayerComputed>(&event);
    if (layer != nullptr && first_token < 0) first_token = layer->first_token;
  });
  caching.Run();
  EXPECT_EQ(first_token, 128);
  ExpectSameTokens(caching.log(id).tokens, plain.log(expected).tokens);
  const std::vector<int32_t>& table = caching.log(id).block_table;
  const auto count = static_cast<int>(tokens.size());
  EXPECT_EQ(KvBytes(caching.engine().cache(), table, count),
            KvBytes(plain.engine().cache(), plain.log(expected).block_table, count));
  KvCache& cache = caching.engine().cache();
  for (int layer = 0; layer < cache.layout().layers; ++layer) {
    for (int page = 0; page < KvPages(count); ++page) {
      const int32_t block = table[static_cast<size_t>(page / 2)];
      EXPECT_EQ(cache.PageCrc(block, layer, page % 2),
                cache.ComputePageCrc(block, layer, page % 2, std::min(16, count - page * 16)));
    }
  }
}

TEST(PrefixReuse, PreemptedAtAnyStepAndResumedItGoesOnAsIfNothingWas) {
  std::mt19937 random(5);
  const SequenceRequest older = LocalRequest(RandomTokens(random, 16), Sampling(150, 2));
  const SequenceRequest request = LocalRequest(RandomTokens(random, 20), Sampling(24, 3));
  EngineHarness plain(With(KvType::kF16, 16, false));
  const EventLog expected_older = plain.RunAlone(older);
  const EventLog expected = plain.RunAlone(request);
  for (const bool caching : {true, false}) {
    EngineHarness::Options options = With(KvType::kF16, 16, caching);
    options.engine.num_kv_blocks = 12;  // the older one needs 11
    for (size_t step = 0; step < 24; step += caching ? 1 : 7) {
      EngineHarness harness(options);
      const SequenceId older_id = harness.Submit(older);
      const SequenceId id = harness.Submit(request);
      while (harness.log(id).tokens.size() < step) harness.engine().Step();
      if (step == 0) harness.engine().Step();
      // Paused, it is the first to give its blocks to the older one.
      harness.engine().SetPaused(id, true);
      harness.Run();
      EXPECT_EQ(harness.log(id).preempted, 1);
      EXPECT_TRUE(harness.log(older_id).finished);
      harness.engine().SetPaused(id, false);
      harness.Run();
      EXPECT_EQ(harness.log(older_id).preempted, 0) << "the oldest always advances";
      ExpectSameTokens(harness.log(id).tokens, expected.tokens);
      ExpectSameTokens(harness.log(older_id).tokens, expected_older.tokens);
      harness.ExpectNothingHeld();
    }
  }
}

TEST(PrefixReuse, KvThatFailedASequenceIsNotFoundByTheNext) {
  std::mt19937 random(6);
  EngineHarness harness(With(KvType::kF32, 16, true));
  const SequenceRequest healthy = LocalRequest(RandomTokens(random, 60), Sampling(20, 1));
  const SequenceRequest same = LocalRequest(RandomTokens(random, 60), Sampling(5, 0));
  const SequenceId broken_id = harness.SubmitWithNanKv(same);
  const SequenceId healthy_id = harness.Submit(healthy);
  harness.engine().Step();
  harness.engine().Commit(broken_id, {{.output_index = 0, .token_id = 5}});
  harness.Run();
  EXPECT_EQ(harness.log(broken_id).failure.code(), absl::StatusCode::kInternal);
  EngineHarness plain(With(KvType::kF32, 16, false));
  ExpectSameTokens(harness.log(healthy_id).tokens, plain.RunAlone(healthy).tokens);
  ExpectSameTokens(harness.RunAlone(same).tokens, plain.RunAlone(same).tokens);
  EXPECT_EQ(harness.engine().Stats().prompt_tokens_cached, 0u);
  harness.ExpectNothingHeld();
}

TEST(PrefixReuse, ManyThatBeginAlikeFitWhereOneCopyFits) {
  std::mt19937 random(7);
  EngineHarness::Options options = With(KvType::kF32, 16, true);
  options.engine.num_kv_blocks = 40;
  EngineHarness harness(options);
  const std::vector<int32_t> text = RandomTokens(random, 256);  // 16 blocks
  harness.RunAlone(LocalRequest(text, Sampling(1, 0)));
  std::vector<SequenceId> ids;
  for (uint64_t i = 0; i < 8; ++i) {
    std::vector<int32_t> tokens = text;
    tokens.push_back(static_cast<int32_t>(i));
    ids.push_back(harness.Submit(LocalRequest(tokens, Sampling(10, i))));
  }
  harness.engine().Step();
  EXPECT_EQ(harness.engine().Stats().running_sequences, 8);
  EXPECT_EQ(harness.engine().Stats().used_blocks, 16 + 8);
  harness.Run();
  for (SequenceId id : ids) EXPECT_TRUE(harness.log(id).finished);
  harness.ExpectNothingHeld();
}

}  // namespace
}  // namespace baton
