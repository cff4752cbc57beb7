#include "common/hugging_face/config_translation.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "common/gguf/gguf_file.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

nlohmann::json SmallLlama() {
  return nlohmann::json::parse(
      R"({"model_type": "llama", "hidden_size": 32, "intermediate_size": 64, "dtype": "float16",
          "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
          "max_position_embeddings": 512, "vocab_size": 100, "rms_norm_eps": 0.5})");
}

absl::StatusOr<TranslatedConfig> Translated(const nlohmann::json& config) {
  return TranslateConfig(JsonFileFields(config, "config.json"));
}

std::string TranslationFault(const nlohmann::json& config) {
  return std::string(Translated(config).status().message());
}

// The keys as a file has them.
GgufFile AsFile(const TranslatedKeys& keys) {
  auto file = GgufFile::Parse(GgufHeader(keys.metadata, 0), "made.gguf");
  EXPECT_TRUE(file.ok()) << file.status();
  return *std::move(file);
}

TEST(ConfigTranslation, SizesStandUnderTheKeysOfTheArchitecture) {
  const auto translated = Translated(SmallLlama());
  ASSERT_TRUE(translated.ok()) << translated.status();
  EXPECT_STREQ(translated->type->model_type, "llama");
  EXPECT_FALSE(translated->tied || translated->multimodal || translated->scaled_e4m3);
  EXPECT_EQ(translated->keys.kv_heads, 2u);
  EXPECT_EQ(translated->keys.head_dim, 8u);
  const GgufFile file = AsFile(translated->keys);
  EXPECT_EQ(*file.GetString("general.architecture"), "llama");
  EXPECT_EQ(*file.GetUint("general.file_type"), 1u);
  EXPECT_EQ(*file.GetUint("llama.block_count"), 2u);
  EXPECT_EQ(*file.GetUint("llama.embedding_length"), 32u);
  EXPECT_EQ(*file.GetUint("llama.feed_forward_length"), 64u);
  EXPECT_EQ(*file.GetUint("llama.attention.head_count"), 4u);
  EXPECT_EQ(*file.GetUint("llama.attention.head_count_kv"), 2u);
  EXPECT_EQ(*file.GetUint("llama.attention.key_length"), 8u);
  EXPECT_EQ(*file.GetUint("llama.context_length"), 512u);
  EXPECT_EQ(*file.GetUint("llama.vocab_size"), 100u);
  EXPECT_EQ(*file.GetFloat("llama.attention.layer_norm_rms_epsilon"), 0.5);
  EXPECT_EQ(*file.GetFloat("llama.rope.freq_base"), 10000);
}

TEST(ConfigTranslation, TheLanguageModelOfAMultimodalOneIsAPart) {
  const nlohmann::json config = {{"text_config", SmallLlama()}, {"tie_word_embeddings", true}};
  const auto translated = Translated(config);
  ASSERT_TRUE(translated.ok()) << translated.status();
  EXPECT_TRUE(translated->multimodal);
  EXPECT_TRUE(translated->tied) << "where the part does not say, the whole does";
  EXPECT_EQ(translated->keys.width, 32u);
  nlohmann::json untied = config;
  untied["text_config"]["tie_word_embeddings"] = false;
  EXPECT_FALSE(Translated(untied)->tied);
}

TEST(ConfigTranslation, APartOfAHeadIsRotatedInPhi3AloneWhereverTheFieldStands) {
  nlohmann::json config = SmallLlama();
  config["partial_rotary_factor"] = 0.5;
  for (const char* type : {"llama", "qwen2"}) {
    config["model_type"] = type;
    EXPECT_THAT(TranslationFault(config),
                StartsWith("config.json: partial_rotary_factor is not 1, which alone"));
  }
  config["model_type"] = "phi3";
  EXPECT_EQ(Translated(config)->keys.rope_dim, 4u);
  config["rope_parameters"] = {{"partial_rotary_factor", 0.25}};
  EXPECT_EQ(Translated(config)->keys.rope_dim, 2u) << "the newer place counts";
  config.erase("partial_rotary_factor");
  EXPECT_EQ(Translated(config)->keys.rope_dim, 2u);
  EXPECT_EQ(*AsFile(Translated(config)->keys).GetUint("phi3.rope.dimension_count"), 2u);
  config["rope_parameters"]["partial_rotary_factor"] = 0.4;  // 3 of 8 values
  EXPECT_THAT(TranslationFault(config), HasSubstr("do not give an even number"));
}

TEST(ConfigTranslation, WhatTransformersTakesForAMissingFieldIsTaken) {
  const auto with = [](const char* type, const char* fields) {
    nlohmann::json config = SmallLlama();
    config["model_type"] = type;
    config.update(nlohmann::json::parse(fields));
    return config;
  };
  const nlohmann::json smollm3 = with("smollm3", "{}");
  EXPECT_TRUE(Translated(smollm3)->tied);
  EXPECT_EQ(*AsFile(Translated(smollm3)->keys).GetFloat("smollm3.rope.freq_base"), 2e6);
  const nlohmann::json mistral = with("mistral", R"({"max_position_embeddings": 9000})");
  EXPECT_EQ(Translated(mistral)->keys.context_length, 4096u);
  const nlohmann::json no_window =
      with("mistral", R"({"max_position_embeddings": 9000, "sliding_window": null})");
  EXPECT_EQ(Translated(no_window)->keys.context_length, 9000u);
  const nlohmann::json gpt_oss =
      with("gpt_oss", R"({"num_local_experts": 2, "num_experts_per_tok": 1,
                          "quantization_config": {"quant_method": "mxfp4"}})");
  const GgufFile file = AsFile(Translated(gpt_oss)->keys);
  EXPECT_EQ(*file.GetFloat("gpt-oss.rope.freq_base"), 150000);
  EXPECT_EQ(*file.GetFloat("gpt-oss.rope.scaling.factor"), 32);
  EXPECT_EQ(*file.GetUint("gpt-oss.attention.sliding_window"), 128u);
}

TEST(ConfigTranslation, OnlyScalesOfBlocksOf128Times128AreRead) {
  nlohmann::json config = SmallLlama();
  config["quantization_config"] = {{"quant_method", "fp8"}, {"weight_block_size", {128, 128}}};
  EXPECT_TRUE(Translated(config)->scaled_e4m3);
  config["quantization_config"]["weight_block_size"] = {128, 64};
  EXPECT_THAT(TranslationFault(config),
              StartsWith("config.json: quantization_config.quant_method is 'fp8'; supported is"));
}

}  // namespace
}  // namespace baton
