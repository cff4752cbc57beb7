#include "common/model/rope_config.h"

#include <cmath>

#include "gtest/gtest.h"

#include "tests/common/model/made_model.h"

namespace baton {
namespace {

RopeConfig OnlyRope(const MadeModel& model, int max_model_len = 0) {
  const auto config = model.Read(max_model_len);
  EXPECT_TRUE(config.ok()) << config.status();
  if (!config.ok()) return {};
  EXPECT_EQ(config->ropes.size(), 1u);
  return config->ropes.front();
}

TEST(RopeConfig, WithoutKeysRotatesWholeHeadsUnscaled) {
  const RopeConfig rope = OnlyRope(MadeModel("llama"));
  EXPECT_EQ(rope.pairs, RopePairs::kInterleaved);
  EXPECT_EQ(rope.dim, 16);
  EXPECT_EQ(rope.base, 10000);
  EXPECT_EQ(rope.linear_scale, 1);
  EXPECT_EQ(rope.divisors, RopeDivisors::kNone);
  EXPECT_EQ(rope.yarn_factor, 1);
  EXPECT_EQ(rope.magnitude, 1);
  EXPECT_EQ(OnlyRope(MadeModel("qwen2")).pairs, RopePairs::kHalfSplit);
}

MadeModel Yarn(const std::string& architecture) {
  return MadeModel(architecture)
      .Float("rope.freq_base", 500)
      .Text("rope.scaling.type", "yarn")
      .Float("rope.scaling.factor", 4)
      .Uint("rope.scaling.original_context_length", 1024);
}

// The pair that turns `turns` times within 1024 tokens, of 8 pairs with base 500.
double PairOf(double turns) {
  return 16 * std::log(1024 / (2 * M_PI * turns)) / (2 * std::log(500.0));
}

TEST(RopeConfig, YarnsRampEndsWhereItsBetasSay) {
  const RopeConfig rope = OnlyRope(Yarn("llama"));
  EXPECT_EQ(rope.yarn_factor, 4);
  EXPECT_EQ(rope.ramp_low, std::floor(PairOf(32)));
  EXPECT_EQ(rope.ramp_high, std::ceil(PairOf(1)));
  EXPECT_NEAR(rope.magnitude, 1 + 0.1 * std::log(4.0), 1e-14);
  const RopeConfig other = OnlyRope(Yarn("llama")
                                        .Float("rope.scaling.yarn_beta_fast", 8)
                                        .Float("rope.scaling.yarn_beta_slow", 0.0625f));
  EXPECT_EQ(other.ramp_low, std::floor(PairOf(8)));
  EXPECT_EQ(other.ramp_high, std::ceil(PairOf(0.0625)));
  // The ramp stays within the head.
  EXPECT_EQ(OnlyRope(Yarn("llama").Float("rope.scaling.yarn_beta_fast", 1e9f)).ramp_low, 0);
  EXPECT_EQ(OnlyRope(Yarn("llama").Float("rope.scaling.yarn_beta_slow", 1e-9f)).ramp_high, 15);
}

TEST(RopeConfig, GptOssDoesNotRoundTheEndsOfTheRamp) {
  const RopeConfig rope =
      OnlyRope(Yarn("gpt-oss").Uint("expert_count", 4).Uint("expert_used_count", 2));
  EXPECT_NEAR(rope.ramp_low, PairOf(32), 1e-12);
  EXPECT_NEAR(rope.ramp_high, PairOf(1), 1e-12);
}

TEST(RopeConfig, TheMagnitudeFollowsItsTwoKeys) {
  const double logarithm = 0.1 * std::log(4.0);
  EXPECT_EQ(OnlyRope(Yarn("llama").Float("rope.scaling.yarn_log_multiplier", 1)).magnitude, 1);
  EXPECT_NEAR(OnlyRope(Yarn("llama").Float("rope.scaling.yarn_log_multiplier", 0.5f)).magnitude,
              (1 + logarithm) / (1 + 0.5 * logarithm), 1e-14);
  EXPECT_NEAR(OnlyRope(Yarn("llama").Float("rope.scaling.attn_factor", 0.5f)).magnitude,
              0.5 * (1 + logarithm), 1e-14);
  EXPECT_EQ(OnlyRope(MadeModel().Float("rope.scaling.attn_factor", 1.5f)).magnitude, 1.5);
}

TEST(RopeConfig, LongRopeChoosesByTheLongestSequenceOfTheServer) {
  const MadeModel phi3 = MadeModel("phi3")
                             .Uint("rope.dimension_count", 12)
                             .Uint("rope.scaling.original_context_length", 128)
                             .Vector("rope_factors_short.weight", 6)
                             .Vector("rope_factors_long.weight", 6);
  EXPECT_EQ(OnlyRope(phi3, 128).divisors, RopeDivisors::kShort);
  EXPECT_EQ(OnlyRope(phi3, 129).divisors, RopeDivisors::kLong);
  EXPECT_EQ(OnlyRope(phi3, 0).divisors, RopeDivisors::kLong);  // the context of 512 tokens
  EXPECT_EQ(OnlyRope(phi3).dim, 12);
  EXPECT_NE(phi3.Read(128)->Digest(), phi3.Read(129)->Digest());
  EXPECT_EQ(phi3.Read(129)->Digest(), phi3.Read(512)->Digest());
}

TEST(RopeConfig, Llama3NamesItsDivisors) {
  EXPECT_EQ(OnlyRope(MadeModel().Vector("rope_freqs.weight", 8)).divisors,
            RopeDivisors::kFrequencies);
}

TEST(RopeConfig, LayersWithAWindowRotateUnscaledWhereTheArchitectureSaysSo) {
  const auto gemma3 = MadeModel("gemma3")
                          .Uint("attention.sliding_window", 16)
                          .Float("rope.freq_base", 1e6f)
                          .Text("rope.scaling.type", "linear")
                          .Float("rope.scaling.factor", 8)
                          .Read();
  ASSERT_TRUE(gemma3.ok()) << gemma3.status();
  ASSERT_EQ(gemma3->ropes.size(), 2u);
  EXPECT_EQ(gemma3->ropes[0].base, 1e6);
  EXPECT_EQ(gemma3->ropes[0].linear_scale, 8);
  EXPECT_EQ(gemma3->ropes[1].base, 10000);
  EXPECT_EQ(gemma3->ropes[1].linear_scale, 1);
  const auto olmo3 = Yarn("olmo2").Uint("attention.sliding_window", 16).Read();
  ASSERT_TRUE(olmo3.ok()) << olmo3.status();
  ASSERT_EQ(olmo3->ropes.size(), 2u);
  EXPECT_EQ(olmo3->ropes[0].yarn_factor, 4);
  EXPECT_EQ(olmo3->ropes[1].yarn_factor, 1);
  EXPECT_EQ(olmo3->ropes[1].magnitude, 1);
  EXPECT_EQ(olmo3->ropes[1].base, 500);
}

}  // namespace
}  // namespace baton
