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
    keys_.rope_dim = 4;
    keys_.context_length = 1024;
  }
  absl::Status ReadRope(const char* config) {
    const nlohmann::json json = nlohmann::json::parse(config);
    return ReadRopeFields(JsonFields(json, "config.json"), keys_);
  }
  absl::Status ReadWindow(const char* config, uint64_t default_period) {
    const nlohmann::json json = nlohmann::json::parse(config);
    return ReadWindowFields(JsonFields(json, "config.json"), default_period, keys_);
  }
  GgufFile File() const {
    auto file = GgufFile::Parse(GgufHeader(keys_.metadata, 0), "made.gguf");
    EXPECT_TRUE(file.ok()) << file.status();
    return *std::move(file);
  }

  TranslatedKeys keys_;
};

TEST_F(TranslatedKeysTest, TheBaseStandsInEitherPlace) {
  ASSERT_TRUE(ReadRope(R"({"rope_theta": 500})").ok());
  EXPECT_EQ(*File().GetFloat("a.rope.freq_base"), 500);
  EXPECT_FALSE(File().Has("a.rope.scaling.type"));
  keys_.metadata = {};
  ASSERT_TRUE(ReadRope(R"({"rope_theta": 500, "rope_parameters": {"rope_theta": 700}})").ok());
  EXPECT_EQ(*File().GetFloat("a.rope.freq_base"), 700) << "the newer one counts";
}

TEST_F(TranslatedKeysTest, LayersWithAWindowMayHaveABaseOfTheirOwn) {
  ASSERT_TRUE(ReadRope(R"({"rope_parameters": {
      "full_attention": {"rope_theta": 1000, "rope_type": "linear", "factor": 8},
      "sliding_attention": {"rope_theta": 10}}})")
                  .ok());
  const GgufFile file = File();
  EXPECT_EQ(*file.GetFloat("a.rope.freq_base"), 1000);
  EXPECT_EQ(*file.GetFloat("a.rope.freq_base_swa"), 10);
  EXPECT_EQ(*file.GetString("a.rope.scaling.type"), "linear");
  EXPECT_EQ(*file.GetFloat("a.rope.scaling.factor"), 8);
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
