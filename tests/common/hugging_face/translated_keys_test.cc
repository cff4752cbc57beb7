#include "common/hugging_face/translated_keys.h"

#include <cmath>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "common/gguf/gguf_file.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TranslatedKeysTest : public ::testing::Test {
 protected:
  TranslatedKeysTest() {
    keys_.prefix = "a";
    keys_.layers = 4;
    keys_.head_dim = 4;
    keys_.context_length = 1024;
  }
  absl::Status ReadRope(const char* config, const RopeRules& rules = {}) {
    keys_.metadata = {};
    const nlohmann::json json = nlohmann::json::parse(config);
    return ReadRopeFields(JsonFileFields(json, "config.json"), rules, keys_);
  }
  double BaseOf(const char* config, const RopeRules& rules = {}) {
    EXPECT_EQ(ReadRope(config, rules), absl::OkStatus());
    return *File().GetFloat("a.rope.freq_base");
  }
  absl::Status ReadWindow(const char* config, uint64_t default_period) {
    const nlohmann::json json = nlohmann::json::parse(config);
    return ReadWindowFields(JsonFileFields(json, "config.json"), default_period, keys_);
  }
  GgufFile File() const {
    auto file = GgufFile::Parse(GgufHeader(keys_.metadata, 0), "made.gguf");
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  TranslatedKeys keys_;
};

TEST_F(TranslatedKeysTest, TheBaseStandsInEitherPlace) {
  EXPECT_EQ(BaseOf(R"({"rope_theta": 500})"), 500);
  EXPECT_FALSE(File().Has("a.rope.scaling.type"));
  EXPECT_EQ(BaseOf(R"({"rope_theta": 500, "rope_parameters": {"rope_theta": 700}})"), 700)
      << "the newer one counts";
  EXPECT_EQ(BaseOf(R"({"rope_theta": 500, "rope_parameters": {}})"), 500);
  EXPECT_EQ(BaseOf(R"({"rope_theta": 500, "rope_parameters": {"rope_type": "default"}})"), 500);
  EXPECT_EQ(BaseOf(R"({"rope_theta": 500, "rope_parameters": {"rope_theta": null}})"), 500);
  EXPECT_EQ(BaseOf("{}", {.base = 900}), 900);
}

TEST_F(TranslatedKeysTest, RopeScalingGoesOverRopeParameters) {
  ASSERT_TRUE(ReadRope(R"({"rope_theta": 500, "rope_parameters": {"rope_type": "default"},
      "rope_scaling": {"type": "linear", "factor": 8}})")
                  .ok());
  EXPECT_EQ(*File().GetFloat("a.rope.freq_base"), 500);
  EXPECT_EQ(*File().GetFloat("a.rope.scaling.factor"), 8);
  ASSERT_TRUE(ReadRope(R"({"rope_parameters": {"rope_type": "linear", "factor": 4},
      "rope_scaling": {}})")
                  .ok());
  EXPECT_EQ(*File().GetFloat("a.rope.scaling.factor"), 4) << "an empty one says nothing";
}

constexpr RopeRules kTwoBases = {.base = 1e6,
                                 .by_layer_type = true,
                                 .local_base = 1e4,
                                 .local_base_field = "rope_local_base_freq"};

TEST_F(TranslatedKeysTest, LayersWithAWindowMayHaveABaseOfTheirOwn) {
  ASSERT_TRUE(ReadRope(R"({"rope_parameters": {
      "full_attention": {"rope_theta": 1000, "rope_type": "linear", "factor": 8},
      "sliding_attention": {"rope_theta": 10}}})",
                       kTwoBases)
                  .ok());
  const GgufFile file = File();
  EXPECT_EQ(*file.GetFloat("a.rope.freq_base"), 1000);
  EXPECT_EQ(*file.GetFloat("a.rope.freq_base_swa"), 10);
  EXPECT_EQ(*file.GetString("a.rope.scaling.type"), "linear");
  EXPECT_EQ(*file.GetFloat("a.rope.scaling.factor"), 8);
}

TEST_F(TranslatedKeysTest, WhatALayerTypeLacksStandsAtTheTop) {
  EXPECT_EQ(BaseOf(R"({"rope_theta": 500, "rope_local_base_freq": 20,
      "rope_parameters": {"full_attention": {"rope_type": "default"}}})",
                   kTwoBases),
            500);
  EXPECT_EQ(*File().GetFloat("a.rope.freq_base_swa"), 20);
  EXPECT_EQ(BaseOf("{}", kTwoBases), 1e6);
  EXPECT_EQ(*File().GetFloat("a.rope.freq_base_swa"), 1e4);
  EXPECT_EQ(BaseOf(R"({"rope_scaling": {"rope_type": "linear", "factor": 8}, "rope_parameters":
      {"full_attention": {"rope_theta": 700, "factor": 2}, "sliding_attention": {}}})",
                   kTwoBases),
            700);
  EXPECT_EQ(*File().GetFloat("a.rope.scaling.factor"), 8);
}

TEST_F(TranslatedKeysTest, OneBaseIsForAllLayersWhereTheArchitectureHasOne) {
  const RopeRules one_base = {.base = 5e5, .by_layer_type = true, .local_base = 5e5};
  EXPECT_EQ(BaseOf(R"({"rope_theta": 500000,
      "rope_scaling": {"rope_type": "yarn", "factor": 8}})",
                   one_base),
            5e5);
  EXPECT_FALSE(File().Has("a.rope.freq_base_swa"));
  EXPECT_THAT(std::string(ReadRope(R"({"rope_parameters": {"full_attention": {"rope_theta": 700},
                  "sliding_attention": {"rope_theta": 800}}})",
                                   one_base)
                              .message()),
              HasSubstr("rope_parameters.sliding_attention.rope_theta is 800 in layers with a "
                        "window and 700 in the others"));
}

TEST_F(TranslatedKeysTest, AFieldThatIsNotReadIsRefusedByItsPlace) {
  EXPECT_THAT(
      std::string(ReadRope(R"({"rope_parameters": {"mrope_section": [1, 1]}})").message()),
      HasSubstr("config.json: rope_parameters.mrope_section is not supported; supported are"));
  EXPECT_THAT(
      std::string(ReadRope(R"({"rope_parameters": {"rope_theta": 700}})", kTwoBases).message()),
      HasSubstr("rope_parameters.rope_theta is not supported; supported are full_attention, "
                "sliding_attention"));
  EXPECT_THAT(
      std::string(
          ReadRope(R"({"rope_parameters": {"full_attention": {"x": 1}}})", kTwoBases).message()),
      HasSubstr("rope_parameters.full_attention.x is not supported"));
  EXPECT_THAT(
      std::string(ReadRope(R"({"rope_parameters": {"llama_4_scaling_beta": 0.1}})").message()),
      HasSubstr("rope_parameters.llama_4_scaling_beta is supported for ministral3 with yarn"));
}

TEST_F(TranslatedKeysTest, TheOriginalContextAtTheTopGoesOverTheObjects) {
  ASSERT_TRUE(ReadRope(R"({"original_max_position_embeddings": 256, "rope_scaling":
      {"type": "yarn", "factor": 4, "original_max_position_embeddings": 64}})")
                  .ok());
  EXPECT_EQ(*File().GetUint("a.rope.scaling.original_context_length"), 256u);
}

TEST_F(TranslatedKeysTest, LongRopeIsKnownByItsOlderNamesAndHasTheFactorThatItNames) {
  const RopeRules long_only = {.partial = true, .long_only = true};
  const auto magnitude = [&](const std::string& type, const std::string& more) {
    const std::string config =
        R"({"original_max_position_embeddings": 256, "rope_scaling": {"type": ")" + type +
        R"(", "long_factor": [1, 2], "short_factor": [1, 1])" + more + "}}";
    EXPECT_EQ(ReadRope(config.c_str(), long_only), absl::OkStatus());
    return *File().GetFloat("a.rope.scaling.attn_factor");
  };
  const double by_lengths = magnitude("longrope", "");
  EXPECT_NEAR(by_lengths, std::sqrt(1 + std::log(4.0) / std::log(256.0)), 1e-6);
  EXPECT_EQ(magnitude("su", ""), by_lengths);
  EXPECT_EQ(magnitude("yarn", ""), by_lengths);
  EXPECT_NEAR(magnitude("su", R"(, "factor": 16)"), std::sqrt(1 + std::log(16.0) / std::log(256.0)),
              1e-6);
  EXPECT_THAT(
      std::string(
          ReadRope(R"({"rope_scaling": {"type": "linear", "factor": 2}})", long_only).message()),
      HasSubstr("rope_scaling.rope_type is 'linear'; supported are default and longrope"));
}

TEST_F(TranslatedKeysTest, Llama3DividesTheFrequenciesOfLongWavesOnly) {
  ASSERT_TRUE(ReadRope(R"({"rope_theta": 1e8, "rope_scaling": {"rope_type": "llama3", "factor": 8,
      "low_freq_factor": 1, "high_freq_factor": 4, "original_max_position_embeddings": 1024}})")
                  .ok());
  // The first pair turns 163 times in 1024 tokens, the second one not once.
  EXPECT_THAT(keys_.rope_freqs, ElementsAre(1, 8));
}

TEST_F(TranslatedKeysTest, YarnsMagnitudeIsWrittenWhereItIsNotTheUsualOne) {
  ASSERT_TRUE(ReadRope(R"({"rope_scaling": {"type": "yarn", "factor": 4, "beta_fast": 16}})").ok());
  EXPECT_EQ(*File().GetString("a.rope.scaling.type"), "yarn");
  EXPECT_EQ(*File().GetUint("a.rope.scaling.original_context_length"), 1024u);
  EXPECT_EQ(*File().GetFloat("a.rope.scaling.yarn_beta_fast"), 16);
  EXPECT_FALSE(File().Has("a.rope.scaling.yarn_beta_slow"));
  EXPECT_FALSE(File().Has("a.rope.scaling.attn_factor"));
  keys_.metadata = {};
  ASSERT_TRUE(
      ReadRope(R"({"rope_scaling": {"type": "yarn", "factor": 4, "attention_factor": 2}})").ok());
  EXPECT_NEAR(*File().GetFloat("a.rope.scaling.attn_factor"), 2 / (1 + 0.1 * std::log(4.0)), 1e-6);
}

TEST_F(TranslatedKeysTest, AScalingThatIsNotKnownIsNamed) {
  const absl::Status status = ReadRope(R"({"rope_scaling": {"type": "dynamic"}})");
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(status.message()), HasSubstr("rope_scaling.rope_type is 'dynamic'"));
  EXPECT_EQ(ReadRope(R"({"rope_parameters": {"rope_theta": 0.5}})").code(),
            absl::StatusCode::kInvalidArgument);
}

TEST_F(TranslatedKeysTest, LayersWithAWindowAreListedOrEveryOneButTheLastOfAPeriod) {
  ASSERT_TRUE(ReadWindow(R"({"sliding_window": 8})", 2).ok());
  EXPECT_EQ(*File().GetUint("a.attention.sliding_window"), 8u);
  EXPECT_THAT(*File().GetBools("a.attention.sliding_window_pattern"),
              ElementsAre(true, false, true, false));
  keys_.metadata = {};
  ASSERT_TRUE(ReadWindow(R"({"sliding_window": 8, "layer_types": ["full_attention",
      "full_attention", "full_attention", "sliding_attention"]})",
                         2)
                  .ok());
  EXPECT_THAT(*File().GetBools("a.attention.sliding_window_pattern"),
              ElementsAre(false, false, false, true));
  EXPECT_FALSE(ReadWindow(R"({"sliding_window": 8, "layer_types": ["full_attention"]})", 2).ok());
  keys_.metadata = {};
  ASSERT_TRUE(ReadWindow(R"({"sliding_window": 8})", 0).ok());
  EXPECT_FALSE(File().Has("a.attention.sliding_window_pattern"));
  keys_.metadata = {};
  ASSERT_TRUE(ReadWindow("{}", 2).ok());
  EXPECT_EQ(keys_.metadata.count(), 0u);
}

}  // namespace
}  // namespace baton
