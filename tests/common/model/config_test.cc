#include "common/model/config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>
#include <vector>

#include "tests/common/model/made_model.h"

namespace baton {
namespace {

absl::StatusOr<ModelConfig> Read(const std::string& name) {
  auto file = GgufFile::Open(std::string(BATON_TEST_DATA "/tiny/") + name + ".gguf");
  if (!file.ok()) return file.status();
  return ModelConfig::FromGguf(*file);
}

TEST(ModelConfig, ReadsTheSizesOfALlama) {
  const auto config = Read("tiny-llama-f32");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->architecture, "llama");
  EXPECT_EQ(config->layers, 3);
  EXPECT_EQ(config->width, 64);
  EXPECT_EQ(config->feed_forward_width, 128);
  EXPECT_EQ(config->heads, 4);
  EXPECT_EQ(config->kv_heads, 2);
  EXPECT_EQ(config->head_dim, 16);
  EXPECT_EQ(config->vocab_size, 320);
  EXPECT_EQ(config->context_length, 512);
  ASSERT_EQ(config->ropes.size(), 1u);
  EXPECT_EQ(config->ropes[0].pairs, RopePairs::kInterleaved);
  EXPECT_EQ(config->ropes[0].linear_scale, 1);
}

TEST(ModelConfig, ReadsWhatDiffersInTheOthers) {
  EXPECT_EQ(Read("tiny-qwen2-bias")->ropes[0].pairs, RopePairs::kHalfSplit);
  EXPECT_EQ(Read("tiny-mqa-linear-rope")->ropes[0].linear_scale, 2);
  EXPECT_EQ(Read("tiny-mqa-linear-rope")->kv_heads, 1);
}

TEST(ModelConfig, DigestTellsArchitecturesApartAndQuantisationsNot) {
  EXPECT_EQ(Read("tiny-llama-f32")->Digest(), Read("tiny-llama-q4_0")->Digest());
  EXPECT_EQ(Read("tiny-llama-f32")->Digest().size(), 32u);
  EXPECT_NE(Read("tiny-llama-f32")->Digest(), Read("tiny-qwen2-bias")->Digest());
  EXPECT_NE(Read("tiny-llama3-rope")->Digest(), Read("tiny-mqa-linear-rope")->Digest());
}

TEST(ModelConfig, ReadsAFileWithoutOptionalKeys) {
  const auto config = MadeModel().Read();
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->kv_heads, 4);
  EXPECT_EQ(config->experts.count, 0);
  EXPECT_EQ(config->norm_places, NormPlaces::kBefore);
  EXPECT_EQ(config->qk_norm, QkNorm::kNone);
  EXPECT_EQ(config->gate_function, GateFunction::kSilu);
  EXPECT_EQ(config->embedding_scale, 1);
  EXPECT_EQ(config->residual_scale, 1);
  EXPECT_EQ(config->attention_scale, 0.25f);
  EXPECT_EQ(config->logit_scale, 1);
  EXPECT_EQ(config->logit_soft_cap, 0);
  EXPECT_EQ(config->temperature_scale, 0);
  ASSERT_EQ(config->layer_kinds.size(), 2u);
  EXPECT_EQ(config->layer_kinds[1].window, 0);
  EXPECT_EQ(config->layer_kinds[1].rope, 0);
}

std::vector<int> WindowsOf(const MadeModel& model) {
  const auto config = model.Read();
  EXPECT_TRUE(config.ok()) << config.status();
  std::vector<int> windows;
  for (const LayerConfig& layer : config->layer_kinds) windows.push_back(layer.window);
  return windows;
}

using testing::ElementsAre;

TEST(ModelConfig, TheLastLayerOfEachPeriodSeesAllKeys) {
  EXPECT_THAT(WindowsOf(MadeModel("gemma3", 7).Uint("attention.sliding_window", 24)),
              ElementsAre(24, 24, 24, 24, 24, 0, 24));
  EXPECT_THAT(WindowsOf(MadeModel("gemma3", 4)
                            .Uint("attention.sliding_window", 24)
                            .Uint("attention.sliding_window_pattern", 2)),
              ElementsAre(24, 0, 24, 0));
  EXPECT_THAT(WindowsOf(MadeModel("olmo2", 5).Uint("attention.sliding_window", 9)),
              ElementsAre(9, 9, 9, 0, 9));
  EXPECT_THAT(WindowsOf(MadeModel("phi3", 3).Uint("attention.sliding_window", 9)),
              ElementsAre(9, 9, 9));
  EXPECT_THAT(WindowsOf(MadeModel("phi3", 3).Uint("attention.sliding_window", 0)),
              ElementsAre(0, 0, 0));
  EXPECT_THAT(WindowsOf(MadeModel("olmo2", 5)), ElementsAre(0, 0, 0, 0, 0));
}

TEST(ModelConfig, ASizeMayStandOnceForEachLayer) {
  const auto config = MadeModel("llama", 3)
                          .Uints("attention.head_count", {4, 4, 4})
                          .Uints("attention.head_count_kv", {2, 2, 2})
                          .Uints("feed_forward_length", {96, 96, 96})
                          .Uints("attention.key_length", {32, 32, 32})
                          .Read();
  ASSERT_TRUE(config.ok()) << config.status();
  const auto same = MadeModel("llama", 3)
                        .Uints("attention.head_count", {4, 4, 4})
                        .Uint("attention.head_count_kv", 2)
                        .Uints("feed_forward_length", {96, 96, 96})
                        .Uint("attention.key_length", 32)
                        .Read();
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(config->heads, 4);
  EXPECT_EQ(config->kv_heads, 2);
  EXPECT_EQ(config->feed_forward_width, 96);
  EXPECT_EQ(config->head_dim, 32);
  EXPECT_EQ(config->Digest(), same->Digest());
  const auto experts = MadeModel("qwen3moe", 2)
                           .Uint("expert_count", 4)
                           .Uints("expert_used_count", {2, 2})
                           .Uints("expert_feed_forward_length", {48, 48})
                           .Read();
  ASSERT_TRUE(experts.ok()) << experts.status();
  EXPECT_EQ(experts->experts.used, 2);
  EXPECT_EQ(experts->experts.width, 48);
}

TEST(ModelConfig, LayersOfSeveralSizesAreRefusedByName) {
  for (const char* key : {"attention.head_count", "attention.head_count_kv", "feed_forward_length",
                          "attention.key_length"}) {
    const absl::Status status = MadeModel("llama", 3).Uints(key, {32, 32, 16}).Read().status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented) << key;
    EXPECT_THAT(std::string(status.message()),
                testing::AllOf(testing::HasSubstr(std::string("llama.") + key),
                               testing::HasSubstr("32 in layer 0 and 16 in layer 2"),
                               testing::HasSubstr("choose another model")));
  }
  EXPECT_EQ(MadeModel("llama", 3).Uints("feed_forward_length", {96, 96}).Read().status().message(),
            "made.gguf: llama.feed_forward_length has 2 values; there are 3 layers");
  EXPECT_FALSE(MadeModel("llama", 3).Uints("feed_forward_length", {}).Read().ok());
  EXPECT_FALSE(MadeModel("llama", 3).Uints("feed_forward_length", {0, 0, 0}).Read().ok());
  EXPECT_FALSE(MadeModel("llama", 3).Uints("block_count", {3, 3, 3}).Read().ok());
}

TEST(ModelConfig, AListSaysWhichLayersHaveAWindow) {
  const auto config = MadeModel("olmo2", 3)
                          .Uint("attention.sliding_window", 9)
                          .Bools("attention.sliding_window_pattern", {0, 1, 0})
                          .Read();
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->layer_kinds[0].window, 0);
  EXPECT_EQ(config->layer_kinds[0].rope, 0);
  EXPECT_EQ(config->layer_kinds[1].window, 9);
  EXPECT_EQ(config->layer_kinds[1].rope, 1);
  EXPECT_EQ(config->layer_kinds[2].window, 0);
}

TEST(ModelConfig, Smollm3RotatesNothingInEveryFourthLayer) {
  const auto config = MadeModel("smollm3", 5).Read();
  ASSERT_TRUE(config.ok()) << config.status();
  for (size_t layer = 0; layer < 5; ++layer) {
    EXPECT_EQ(config->layer_kinds[layer].rope, layer == 3 ? kNoRope : 0) << layer;
  }
}

TEST(ModelConfig, ReadsTheScales) {
  const auto granite = MadeModel("granite")
                           .Float("embedding_scale", 12)
                           .Float("residual_scale", 0.25f)
                           .Float("attention.scale", 0.125f)
                           .Float("logit_scale", 8)
                           .Read();
  ASSERT_TRUE(granite.ok()) << granite.status();
  EXPECT_EQ(granite->embedding_scale, 12);
  EXPECT_EQ(granite->residual_scale, 0.25f);
  EXPECT_EQ(granite->attention_scale, 0.125f);
  EXPECT_EQ(granite->logit_scale, 8);
  // A scale of 0 is none.
  EXPECT_EQ(MadeModel("granite").Float("attention.scale", 0).Read()->attention_scale, 0.25f);

  const auto gemma3 = MadeModel("gemma3").Float("final_logit_softcapping", 30).Read();
  ASSERT_TRUE(gemma3.ok()) << gemma3.status();
  EXPECT_EQ(gemma3->embedding_scale, 8);
  EXPECT_EQ(gemma3->logit_soft_cap, 30);
  EXPECT_EQ(gemma3->attention_scale, 0.25f);
  EXPECT_EQ(MadeModel("gemma3", 62).Uint("attention.key_length", 32).Read()->attention_scale,
            0.25f);  // by the width of 4 heads and not by the head's

  const auto mistral3 = MadeModel("mistral3")
                            .Float("attention.temperature_scale", 0.5f)
                            .Uint("rope.scaling.original_context_length", 64)
                            .Read();
  ASSERT_TRUE(mistral3.ok()) << mistral3.status();
  EXPECT_EQ(mistral3->temperature_scale, 0.5);
  EXPECT_EQ(mistral3->temperature_length, 64);
}

TEST(ModelConfig, ReadsTheExperts) {
  const auto mixtral = MadeModel().Uint("expert_count", 8).Uint("expert_used_count", 2).Read();
  ASSERT_TRUE(mixtral.ok()) << mixtral.status();
  EXPECT_EQ(mixtral->experts.count, 8);
  EXPECT_EQ(mixtral->experts.used, 2);
  EXPECT_EQ(mixtral->experts.width, 128);
  EXPECT_EQ(mixtral->experts.shared_width, 0);
  const auto qwen3moe = MadeModel("qwen3moe")
                            .Uint("expert_count", 8)
                            .Uint("expert_used_count", 8)
                            .Uint("expert_feed_forward_length", 32)
                            .Read();
  ASSERT_TRUE(qwen3moe.ok()) << qwen3moe.status();
  EXPECT_EQ(qwen3moe->experts.width, 32);
  const auto granite = MadeModel("granitemoe")
                           .Uint("expert_count", 6)
                           .Uint("expert_used_count", 3)
                           .Uint("expert_shared_feed_forward_length", 64)
                           .Read();
  ASSERT_TRUE(granite.ok()) << granite.status();
  EXPECT_EQ(granite->experts.shared_width, 64);
  EXPECT_EQ(MadeModel().Uint("expert_count", 0).Read()->experts.count, 0);
}

// Any two of these compute something else.
TEST(ModelConfig, DigestsDifferWhereverTheComputationDoes) {
  std::set<std::string> digests;
  const std::vector<MadeModel> models = {
      MadeModel(),
      MadeModel("qwen2"),
      MadeModel("qwen3"),
      MadeModel("olmo2"),
      MadeModel("gemma3"),
      MadeModel("gemma3").Uint("attention.sliding_window", 16),
      MadeModel("gemma3").Uint("attention.sliding_window", 17),
      MadeModel("gemma3").Uint("attention.sliding_window", 16).Float("rope.freq_base_swa", 99),
      MadeModel("gemma3").Float("final_logit_softcapping", 30),
      MadeModel("smollm3", 4),
      MadeModel("llama", 4),
      MadeModel("granite").Float("embedding_scale", 2),
      MadeModel("granite").Float("residual_scale", 2),
      MadeModel("granite").Float("attention.scale", 2),
      MadeModel("granite").Float("logit_scale", 2),
      MadeModel("mistral3").Float("attention.temperature_scale", 2),
      MadeModel("mistral3")
          .Float("attention.temperature_scale", 2)
          .Uint("rope.scaling.original_context_length", 64),
      MadeModel().Uint("expert_count", 8).Uint("expert_used_count", 2),
      MadeModel().Uint("expert_count", 8).Uint("expert_used_count", 3),
      MadeModel().Text("rope.scaling.type", "yarn").Float("rope.scaling.factor", 4),
      MadeModel().Text("rope.scaling.type", "linear").Float("rope.scaling.factor", 4),
      MadeModel().Float("rope.scaling.attn_factor", 2),
      MadeModel().Vector("rope_freqs.weight", 8)};
  for (size_t i = 0; i < models.size(); ++i) {
    const auto config = models[i].Read();
    ASSERT_TRUE(config.ok()) << config.status();
    EXPECT_TRUE(digests.insert(config->Digest()).second) << "model " << i;
  }
  // These say the same in other words.
  EXPECT_EQ(MadeModel("granite").Float("logit_scale", 1).Read()->Digest(),
            MadeModel().Read()->Digest());
}

void ExpectRefused(const MadeModel& model, absl::StatusCode code, const std::string& key,
                   const std::string& why) {
  const auto config = model.Read();
  EXPECT_EQ(config.status().code(), code) << key << ": " << config.status();
  EXPECT_THAT(std::string(config.status().message()),
              testing::AllOf(testing::HasSubstr("made.gguf"), testing::HasSubstr(key),
                             testing::HasSubstr(why)));
}

TEST(ModelConfig, RefusesByNameWhatIsNotSupported) {
  const auto kUnimplemented = absl::StatusCode::kUnimplemented;
  ExpectRefused(MadeModel("gemma"), kUnimplemented, "general.architecture",
                "'gemma'; supported are llama, qwen2, qwen3");
  ExpectRefused(MadeModel().Text("rope.scaling.type", "ntk"), kUnimplemented,
                "llama.rope.scaling.type", "'ntk'; supported are none, linear, yarn and longrope");
  ExpectRefused(MadeModel().Uint("attention.key_length", 24), kUnimplemented,
                "llama.attention.key_length", "multiples of 16");
}

TEST(ModelConfig, ARefusalShowsTextsOfTheFileEscaped) {
  const auto kUnimplemented = absl::StatusCode::kUnimplemented;
  ExpectRefused(MadeModel("ge\x1b[2J"), kUnimplemented, "general.architecture",
                "'ge\\u001b[2J'; supported are");
  ExpectRefused(MadeModel().Text("rope.scaling.type", "\x1b[2J"), kUnimplemented,
                "llama.rope.scaling.type", "'\\u001b[2J'; supported are");
}

// Each key changes what a model computes, and is one of other architectures or of none here.
TEST(ModelConfig, RefusesEveryKeyThatAnArchitectureDoesNotHave) {
  for (const char* architecture : {"llama", "qwen2", "smollm3", "olmo2"}) {
    for (const char* key : OptionalKeys()) {
      if (MayHave(*FindArchitecture(architecture), key)) continue;
      const std::string name = std::string(architecture) + "." + key;
      const auto refused = [&](const MadeModel& model) {
        ExpectRefused(model, absl::StatusCode::kUnimplemented, name, architecture);
      };
      refused(MadeModel(architecture).Uint(key, 3));
      refused(MadeModel(architecture).Float(key, 0.5f));
      refused(MadeModel(architecture).Text(key, "on"));
      refused(MadeModel(architecture).Bools(key, {1, 0}));
      // Zero says that there is none; only the key's own type may say it.
      EXPECT_TRUE(MadeModel(architecture).Uint(key, 0).Read().ok() ||
                  MadeModel(architecture).Float(key, 0).Read().ok())
          << name;
    }
  }
}

struct BadFloat {
  const char* architecture;
  const char* key;
};

TEST(ModelConfig, RefusesEveryNumberThatIsNone) {
  const BadFloat keys[] = {
      {"granite", "embedding_scale"},        {"granite", "residual_scale"},
      {"granite", "attention.scale"},        {"granite", "logit_scale"},
      {"gemma3", "final_logit_softcapping"}, {"mistral3", "attention.temperature_scale"},
      {"llama", "rope.freq_base"},           {"llama", "rope.scaling.attn_factor"},
      {"gemma3", "rope.freq_base_swa"}};
  for (const BadFloat& bad : keys) {
    for (const float value :
         {-1.0f, std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
          std::numeric_limits<float>::quiet_NaN(), 2e30f}) {
      ExpectRefused(MadeModel(bad.architecture).Float(bad.key, value),
                    absl::StatusCode::kInvalidArgument, bad.key, "positive number");
    }
    ExpectRefused(MadeModel(bad.architecture).Text(bad.key, "1"),
                  absl::StatusCode::kInvalidArgument, bad.key, "float");
  }
}

TEST(ModelConfig, RefusesEveryNumberOfYarnThatIsNone) {
  for (const char* key : {"rope.scaling.factor", "rope.scaling.yarn_beta_fast",
                          "rope.scaling.yarn_beta_slow", "rope.scaling.yarn_log_multiplier"}) {
    for (const float value : {-1.0f, std::numeric_limits<float>::quiet_NaN(), 2e30f}) {
      MadeModel model = MadeModel().Text("rope.scaling.type", "yarn").Float(key, value);
      if (key != std::string("rope.scaling.factor")) model.Float("rope.scaling.factor", 4);
      ExpectRefused(model, absl::StatusCode::kInvalidArgument, key, "positive number");
    }
  }
}

TEST(ModelConfig, RefusesByNameWhatContradictsItself) {
  const auto refused = [](const MadeModel& model, const std::string& key, const std::string& why) {
    ExpectRefused(model, absl::StatusCode::kInvalidArgument, key, why);
  };
  refused(MadeModel().Uint("attention.head_count_kv", 3), "llama.attention.head_count_kv",
          "divide");
  refused(MadeModel().Uint("vocab_size", 9), "llama.vocab_size", "8 rows");
  refused(MadeModel().Uint("rope.dimension_count", 7), "llama.rope.dimension_count", "even");
  refused(MadeModel("phi3").Uint("rope.dimension_count", 18), "phi3.rope.dimension_count",
          "at most the head dimension");
  const auto yarn = [] { return MadeModel().Text("rope.scaling.type", "yarn"); };
  ExpectRefused(yarn(), absl::StatusCode::kNotFound, "llama.rope.scaling.factor", "missing");
  refused(yarn().Float("rope.scaling.factor", 0.5f), "llama.rope.scaling.factor", "at least 1");
  refused(yarn().Float("rope.scaling.factor", 2).Float("rope.freq_base", 1), "llama.rope.freq_base",
          "above 1");
  refused(yarn().Float("rope.scaling.factor", 2).Uint("rope.scaling.original_context_length", 0),
          "llama.rope.scaling.original_context_length", "is 0");
  refused(MadeModel().Text("rope.scaling.type", "longrope"), "llama.rope.scaling.type",
          "rope_factors_");
  refused(MadeModel().Vector("rope_freqs.weight", 8).Vector("rope_factors_long.weight", 8),
          "rope_freqs.weight", "exclude each other");
  const auto windows = [] { return MadeModel("gemma3").Uint("attention.sliding_window", 4); };
  refused(windows().Uint("attention.sliding_window_pattern", 0),
          "gemma3.attention.sliding_window_pattern", "is 0");
  refused(windows().Bools("attention.sliding_window_pattern", {1}),
          "gemma3.attention.sliding_window_pattern", "has 1 values; there are 2 layers");
  refused(windows().Text("attention.sliding_window_pattern", "all"),
          "gemma3.attention.sliding_window_pattern", "bools");
  refused(MadeModel("gemma3").Uint("attention.sliding_window", 1 << 28),
          "gemma3.attention.sliding_window", "must be 1 to");
}

TEST(ModelConfig, RefusesExpertsThatCannotBeChosen) {
  const auto refused = [](const MadeModel& model, absl::StatusCode code, const std::string& key) {
    ExpectRefused(model, code, key, "");
  };
  const auto kInvalid = absl::StatusCode::kInvalidArgument;
  const auto experts = [] { return MadeModel("granitemoe").Uint("expert_count", 4); };
  refused(experts(), absl::StatusCode::kNotFound, "granitemoe.expert_used_count");
  refused(experts().Uint("expert_used_count", 0), kInvalid, "granitemoe.expert_used_count");
  refused(experts().Uint("expert_used_count", 5), kInvalid, "granitemoe.expert_used_count");
  refused(experts().Uint("expert_used_count", 2).Uint("expert_shared_feed_forward_length", 1 << 30),
          kInvalid, "granitemoe.expert_shared_feed_forward_length");
  refused(MadeModel("granitemoe"), absl::StatusCode::kNotFound, "granitemoe.expert_count");
  refused(MadeModel("qwen3moe").Uint("expert_count", 1 << 20), kInvalid, "qwen3moe.expert_count");
}

}  // namespace
}  // namespace baton
