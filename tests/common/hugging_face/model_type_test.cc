#include "common/hugging_face/model_type.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using ::testing::HasSubstr;

const ModelType& KnownType(const std::string& name) {
  const ModelType* type = FindModelType(name);
  EXPECT_NE(type, nullptr) << name;
  return *type;
}

// The error of the fields that only this model type has.
std::string ReadFault(const std::string& name, const char* config) {
  const nlohmann::json json = nlohmann::json::parse(config);
  TranslatedKeys keys;
  keys.prefix = KnownType(name).name;
  keys.layers = 4;
  return std::string(KnownType(name).read(JsonFileFields(json, "config.json"), keys).message());
}

TEST(ModelTypes, AreFoundByTheirNameInTheConfig) {
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(ModelTypes(), ", "))) {
    EXPECT_EQ(KnownType(name).model_type, name);
  }
  EXPECT_STREQ(KnownType("mixtral").name, "llama");
  EXPECT_STREQ(KnownType("gpt_oss").name, "gpt-oss");
  EXPECT_TRUE(KnownType("gemma3_text").norms_plus_one);
  EXPECT_FALSE(KnownType("qwen3").rotates_pairs);
  EXPECT_EQ(FindModelType("mamba"), nullptr);
  EXPECT_EQ(FindModelType(""), nullptr);
}

TEST(ModelTypes, NameEachTensorOnceWithOneNumberForEachOfOurs) {
  std::vector<absl::Span<const TensorName>> lists = {CommonNames()};
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(ModelTypes(), ", "))) {
    lists.push_back(KnownType(name).names);
  }
  for (const absl::Span<const TensorName> names : lists) {
    std::set<std::string> theirs;
    for (const TensorName& name : names) {
      EXPECT_TRUE(theirs.insert(name.theirs).second) << name.theirs;
      EXPECT_EQ(std::string(name.ours).empty(), name.rule == TensorRule::kDropped) << name.theirs;
      if (name.rule == TensorRule::kDropped) continue;
      EXPECT_EQ(absl::StrContains(name.theirs, "#"), absl::StartsWith(name.ours, "blk.#."))
          << name.theirs;
      const bool expert = name.rule == TensorRule::kExpert;
      EXPECT_EQ(absl::StrContains(name.theirs, "experts.#."), expert) << name.theirs;
      if (name.rule == TensorRule::kGateAndUp || name.rule == TensorRule::kGateUpInTurns) {
        EXPECT_NE(name.up, nullptr) << name.theirs;
      }
    }
  }
}

TEST(ModelTypes, RefuseTheFieldsThatWouldChangeTheirComputation) {
  EXPECT_THAT(ReadFault("qwen3_moe", R"({"norm_topk_prob": false})"),
              HasSubstr("norm_topk_prob is not true"));
  EXPECT_THAT(ReadFault("qwen3_moe", R"({"norm_topk_prob": true, "mlp_only_layers": [1]})"),
              HasSubstr("mlp_only_layers or decoder_sparse_step"));
  EXPECT_THAT(ReadFault("granite", R"({"embedding_multiplier": 0})"),
              HasSubstr("embedding_multiplier is not above 0"));
  EXPECT_THAT(ReadFault("smollm3", R"({"no_rope_layers": [1, 1, 0, 1]})"),
              HasSubstr("no_rope_layers does not leave out every fourth layer"));
  EXPECT_EQ(ReadFault("smollm3", R"({"no_rope_layers": [1, 1, 1, 0]})"), "");
  EXPECT_THAT(ReadFault("smollm3", R"({"no_rope_layer_interval": 2})"),
              HasSubstr("no_rope_layer_interval is 2; supported is 4"));
  EXPECT_THAT(ReadFault("qwen3", R"({"layer_types": ["linear_attention"]})"),
              HasSubstr("layer_types has a type that is neither"));
  EXPECT_THAT(ReadFault("gpt_oss", R"({"swiglu_alpha": 2})"),
              HasSubstr("swiglu_alpha is 2; supported is 1.702"));
  EXPECT_THAT(ReadFault("gpt_oss", R"({"attention_bias": false})"),
              HasSubstr("attention_bias is false"));
  EXPECT_THAT(ReadFault("gemma3_text",
                        R"({"query_pre_attn_scalar": 0, "use_bidirectional_attention": true})"),
              HasSubstr("use_bidirectional_attention is true"));
}

TEST(ModelTypes, EndTheContextAtAWindowThatNobodyComputes) {
  const nlohmann::json json = {{"sliding_window", 5}};
  TranslatedKeys keys;
  keys.context_length = 16;
  ASSERT_TRUE(KnownType("qwen2").read(JsonFileFields(json, "config.json"), keys).ok());
  EXPECT_EQ(keys.context_length, 16u) << "it is not in use";
  const nlohmann::json listed = {{"sliding_window", 9},
                                 {"layer_types", {"full_attention", "sliding_attention"}}};
  ASSERT_TRUE(KnownType("smollm3").read(JsonFileFields(listed, "config.json"), keys).ok());
  EXPECT_EQ(keys.context_length, 9u) << "a layer that is listed has it";
  ASSERT_TRUE(KnownType("mistral").read(JsonFileFields(json, "config.json"), keys).ok());
  EXPECT_EQ(keys.context_length, 5u);
}

}  // namespace
}  // namespace baton
