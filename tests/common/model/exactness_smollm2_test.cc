// The numerics contract on SmolLM2: a pairwise sample of the ways to compute the same tokens. Needs
// BATON_TEST_MODEL.
#include <gtest/gtest.h>

#include <vector>

#include "tests/support/exactness.h"
#include "tests/support/instruction_sets.h"

namespace baton {
namespace {

constexpr int kTokens = 100;
constexpr int kPortableTokens = 24;  // the portable path is slow

class SmolLm2Exactness : public testing::Test {
 protected:
  void SetUp() override {
    if (TestModelPath().empty()) GTEST_SKIP() << "set BATON_TEST_MODEL to SmolLM2's GGUF file";
  }
  static ModelRunnerOptions Options(const Way& way) {
    ModelRunnerOptions options;
    options.path = TestModelPath();
    options.max_tokens = 2000;
    return With(options, way);
  }
  static std::vector<int32_t> Tokens(int first, int end) {
    const std::vector<int32_t> all = RandomTokens(kTokens, 49152, 1);
    return {all.begin() + first, all.begin() + end};
  }
  static int TokensFor(CpuIsa isa) { return isa == CpuIsa::kPortable ? kPortableTokens : kTokens; }
  // The first `tokens` tokens by the best instruction set, one thread, at once.
  static Outcome Expected(int tokens) {
    ModelRunner runner(Options({.isa = InstructionSets().back()}));
    return Compute(runner, runner.AddSequence(), Tokens(0, tokens), Schedule::kAtOnce);
  }
};

TEST_F(SmolLm2Exactness, APairwiseSampleOfTheWaysGivesTheSameBits) {
  const Outcome expected = Expected(kTokens);
  const Outcome expected_of_portable = Expected(kPortableTokens);
  ASSERT_TRUE(AllFinite(expected));
  for (const Way& way : PairwiseWays()) {
    const int tokens = TokensFor(way.isa);
    ModelRunner runner(Options(way));
    EXPECT_EQ(
        FirstDifference(tokens == kTokens ? expected : expected_of_portable,
                        Compute(runner, runner.AddSequence(), Tokens(0, tokens), way.schedule),
                        runner.vocab_size()),
        "")
        << Describe(way);
  }
}

TEST_F(SmolLm2Exactness, OneInstructionSetContinuesWhatAnotherBegan) {
  const Outcome expected = Expected(kPortableTokens);
  constexpr int kPrompt = kPortableTokens - 4;
  for (const CpuIsa prefill_isa : InstructionSets()) {
    ModelRunner prefill(Options({.isa = prefill_isa, .threads = 2, .block_size = 64}));
    const Outcome prompt =
        Compute(prefill, prefill.AddSequence(), Tokens(0, kPrompt), Schedule::kAtOnce);
    for (const CpuIsa decode_isa : InstructionSets()) {
      ModelRunner decode(Options({.isa = decode_isa, .threads = 1, .block_size = 16}));
      const int sequence = decode.AddSequenceWithKv(prompt.kv, kPrompt);
      const Outcome outcome = prompt.Then(
          Compute(decode, sequence, Tokens(kPrompt, kPortableTokens), Schedule::kOneByOne));
      EXPECT_EQ(FirstDifference(expected, outcome, decode.vocab_size()), "")
          << CpuIsaName(prefill_isa) << ", continued by " << CpuIsaName(decode_isa);
    }
  }
}

}  // namespace
}  // namespace baton
