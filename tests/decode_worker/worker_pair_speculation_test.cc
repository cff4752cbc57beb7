// Answers with guessed tokens, between real workers.
#include <thread>

#include "gtest/gtest.h"

#include "tests/decode_worker/pair_requests.h"
#include "tests/decode_worker/worker_pair.h"

namespace baton {
namespace {

TestWorker::Options WithGuesses(SpeculationMode mode) {
  TestWorker::Options options = WithBlocks(16);
  options.speculation = mode;
  return options;
}

// An output of few tokens is full of n-grams that came before, not all of which go on alike.
internal::v1::SequenceSpec OfFewTokens(uint64_t id) {
  SamplingParams sampling = Seeded(110, id);
  sampling.logit_bias = {{3, 40.0F}, {90, 40.0F}, {150, 40.0F}};
  return MakeSpec(Prompt(30, static_cast<uint32_t>(id)), sampling, id);
}

TEST(WorkerPairSpeculation, AnswersAreThoseWithoutGuessesAlsoWhereARequestRunsAlone) {
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(WithGuesses(SpeculationMode::kNgram));
  TestWorker plain(WithGuesses(SpeculationMode::kNone));
  uint64_t id = 1;
  for (const bool isolate : {false, true}) {
    uint32_t accepted = 0;
    uint32_t refused = 0;
    for (const bool local : {false, true}) {
      internal::v1::SequenceSpec spec = OfFewTokens(id++);
      spec.set_isolate(isolate);
      const internal::v1::SequenceSpec beside = OfFewTokens(id++);
      HandoffResult other;
      std::thread thread([&] { other = RunLocally(decode, beside); });
      const HandoffResult result =
          local ? RunLocally(decode, spec) : RunHandoff(prefill, decode, spec);
      thread.join();
      EXPECT_EQ(result.tokens.size(), 110u);
      EXPECT_TRUE(result.finished.exact());
      ExpectSameTokens(result, RunLocally(plain, spec));
      ExpectSameTokens(other, RunLocally(plain, beside));
      accepted += result.accepted_guesses;
      refused += result.refused_guesses;
    }
    EXPECT_GT(accepted, 10u) << isolate;
    EXPECT_GT(refused, 3u) << isolate;
  }
  EXPECT_TRUE(decode.ComesToRest());
}

}  // namespace
}  // namespace baton
