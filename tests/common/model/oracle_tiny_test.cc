// The tiny models against the reference's logits and greedy tokens (tests/data/README.md).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "tests/support/exactness.h"
#include "tests/support/ggml_blocks.h"
#include "tests/support/gguf_builder.h"
#include "tests/support/model_runner.h"
#include "tests/support/reference_model.h"
#include "tests/support/tiny_model.h"

namespace baton {
namespace {

const char* const kData = BATON_TEST_DATA "/tiny/";

nlohmann::json ReadJson(const std::string& path) {
  std::ifstream in(path);
  return nlohmann::json::parse(in);
}

struct Case {
  std::string file;   // without .gguf
  std::string json;   // without .json
  std::string model;  // its name in the json
};

std::vector<Case> FloatCases() {
  return {{"tiny-llama-f32", "tiny-llama", "f32"},
          {"tiny-llama-f16", "tiny-llama", "f16"},
          {"tiny-llama-bf16", "tiny-llama", "bf16"},
          {"tiny-mha-untied", "tiny-more", "tiny-mha-untied"},
          {"tiny-mqa-linear-rope", "tiny-more", "tiny-mqa-linear-rope"},
          {"tiny-llama3-rope", "tiny-more", "tiny-llama3-rope"},
          {"tiny-qwen2-bias", "tiny-more", "tiny-qwen2-bias"}};
}

std::vector<Case> QuantisedCases() {
  return {{"tiny-llama-q8_0", "tiny-llama", "q8_0"},
          {"tiny-llama-q4_0", "tiny-llama", "q4_0"},
          {"tiny-llama-q4_1", "tiny-llama", "q4_1"},
          {"tiny-wide-q5_0", "tiny-more", "tiny-wide-q5_0"},
          {"tiny-wide-q5_1", "tiny-more", "tiny-wide-q5_1"},
          {"tiny-wide-q4_k", "tiny-more", "tiny-wide-q4_k"},
          {"tiny-wide-q5_k", "tiny-more", "tiny-wide-q5_k"},
          {"tiny-wide-q6_k", "tiny-more", "tiny-wide-q6_k"}};
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.file;
  for (char& c : name) {
    if (c == '-') c = '_';
  }
  return name;
}

ModelRunner MakeRunner(const Case& model, KvType kv_dtype) {
  return ModelRunner({.path = kData + model.file + ".gguf", .kv_dtype = kv_dtype});
}

float LargestDifference(const std::vector<float>& logits, const std::vector<float>& expected) {
  float largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    largest = std::max(largest, std::fabs(logits[i] - expected[i]));
  }
  return largest;
}

void ExpectLoads(const Case& model) {
  const auto file = GgufFile::Open(kData + model.file + ".gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE(LoadStatus(*file).ok()) << LoadStatus(*file);
}

class FloatOracle : public testing::TestWithParam<Case> {};

TEST_P(FloatOracle, LogitsAndGreedyTokensAreTheReferencesWithF32Kv) {
  const auto prompts = ReadJson(kData + GetParam().json + ".json")["models"][GetParam().model];
  ASSERT_FALSE(prompts.empty());
  for (const auto& [name, prompt] : prompts.items()) {
    SCOPED_TRACE(name);
    ModelRunner runner = MakeRunner(GetParam(), KvType::kF32);
    const int sequence = runner.AddSequence();
    std::vector<float> logits = runner.Append(sequence, prompt["token_ids"]);
    EXPECT_LE(LargestDifference(logits, prompt["last_logits"]), 1e-3f);
    for (const int expected : prompt["greedy"]) {
      const int token = ArgMax(logits.data(), runner.vocab_size());
      ASSERT_EQ(token, expected);
      logits = runner.Append(sequence, {token});
    }
  }
}

TEST_P(FloatOracle, LogitsAreNearTheReferencesWithF16Kv) {
  const auto prompts = ReadJson(kData + GetParam().json + ".json")["models"][GetParam().model];
  for (const auto& [name, prompt] : prompts.items()) {
    SCOPED_TRACE(name);
    ModelRunner runner = MakeRunner(GetParam(), KvType::kF16);
    const std::vector<float> logits = runner.Append(runner.AddSequence(), prompt["token_ids"]);
    EXPECT_LE(LargestDifference(logits, prompt["last_logits"]), 0.05f);
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, FloatOracle, testing::ValuesIn(FloatCases()), CaseName);

class QuantisedOracle : public testing::TestWithParam<Case> {};

// Activations in int8 move these models' logits by up to 1.5, because random weights amplify every
// error; a token is decided where the reference's margin is wider. SmolLM2's own test (margin 0.5)
// is the sharper one.
TEST_P(QuantisedOracle, TeacherForcedTokensAreTheReferencesWhereItsMarginIsWide) {
  ASSERT_NO_FATAL_FAILURE(ExpectLoads(GetParam()));
  const auto prompts = ReadJson(kData + GetParam().json + ".json")["models"][GetParam().model];
  ASSERT_FALSE(prompts.empty());
  for (const auto& [name, prompt] : prompts.items()) {
    SCOPED_TRACE(name);
    ModelRunner runner = MakeRunner(GetParam(), KvType::kF32);
    const int sequence = runner.AddSequence();
    std::vector<float> logits = runner.Append(sequence, prompt["token_ids"]);
    EXPECT_LE(LargestDifference(logits, prompt["last_logits"]), 1.5f);
    for (size_t i = 0; i < prompt["greedy"].size(); ++i) {
      const int expected = prompt["greedy"][i];
      const int choice = ArgMax(logits.data(), runner.vocab_size());
      EXPECT_TRUE(choice == expected || prompt["margins"][i] < 1.5)
          << "step " << i << ", margin " << prompt["margins"][i];
      const auto better = std::count_if(logits.begin(), logits.end(), [&](float logit) {
        return logit > logits[static_cast<size_t>(expected)];
      });
      EXPECT_LT(better, 8) << "step " << i;
      logits = runner.Append(sequence, {expected});
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, QuantisedOracle, testing::ValuesIn(QuantisedCases()), CaseName);

// The reference model of the other tests, and with it the meaning that tests/support gives to each
// type, against what NumPy recorded.
TEST(ReferenceModel, HasTheRecordedLogits) {
  std::vector<Case> cases = QuantisedCases();
  for (const char* type : {"f32", "f16", "bf16"}) {
    cases.push_back({std::string("tiny-llama-") + type, "tiny-llama", type});
  }
  for (const Case& model : cases) {
    SCOPED_TRACE(model.file);
    const auto file = GgufFile::Open(kData + model.file + ".gguf");
    ASSERT_TRUE(file.ok()) << file.status();
    const ReferenceModel reference(*file);
    const auto prompts = ReadJson(kData + model.json + ".json")["models"][model.model];
    ASSERT_FALSE(prompts.empty());
    for (const auto& [name, prompt] : prompts.items()) {
      const std::vector<float> logits = reference.Forward(prompt["token_ids"], nullptr);
      const std::vector<float> last(logits.end() - reference.vocab_size(), logits.end());
      EXPECT_LE(LargestDifference(last, prompt["last_logits"]), 1e-3f) << name;
    }
  }
}

class TameModel : public testing::TestWithParam<GgmlType> {};

// Widths that the files above do not have, and parts of all scales.
TEST_P(TameModel, HasLogitsNearTheReferences) {
  for (const uint32_t seed : {1, 2, 3}) {
    TinyModelOptions made;
    made.types = {GetParam()};
    made.seed = seed;
    const GgufFile file = MakeTinyModel(made);
    ASSERT_TRUE(LoadStatus(file).ok()) << LoadStatus(file);
    const std::vector<int32_t> tokens = RandomTokens(70, kTinyVocabSize, seed);
    ModelRunnerOptions options;
    options.file = &file;
    options.kv_dtype = KvType::kF32;
    ModelRunner runner(options);
    const std::vector<float> ours = runner.Forward({{runner.AddSequence(), tokens}});
    const std::vector<float> expected = ReferenceModel(file).Forward(tokens, nullptr);
    ASSERT_EQ(ours.size(), expected.size());
    double error = 0;
    double size = 0;
    for (size_t i = 0; i < ours.size(); ++i) {
      error += std::pow(ours[i] - expected[i], 2);
      size += std::pow(expected[i], 2);
    }
    EXPECT_LE(std::sqrt(error / size), IsFloatType(GetParam()) ? 1e-5 : 0.01) << "seed " << seed;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, TameModel, testing::ValuesIn(kWeightTypes),
                         [](const auto& type) { return GgmlTypeName(type.param); });

TEST(Oracle, OtherTensorTypesAreRefusedByName) {
  constexpr uint32_t kQ2K = 10;
  GgufBuilder builder;
  builder.Text("general.architecture", "llama");
  for (const char* key : {"block_count", "attention.head_count"}) {
    builder.Uint32(std::string("llama.") + key, 1);
  }
  for (const char* key : {"embedding_length", "feed_forward_length", "context_length"}) {
    builder.Uint32(std::string("llama.") + key, 256);
  }
  builder.Scalar("llama.attention.layer_norm_rms_epsilon", 6, 1e-5f);
  builder.TensorWithData("token_embd.weight", {256, 16}, kQ2K, std::string(16 * 84, '\0'));
  const auto file = GgufFile::Parse(builder.Build(), "made.gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  const absl::Status status = LoadStatus(*file);
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(
      std::string(status.message()),
      testing::AllOf(testing::HasSubstr("made.gguf"), testing::HasSubstr("token_embd.weight"),
                     testing::HasSubstr("Q2_K"), testing::HasSubstr("supported are F32")));
}

}  // namespace
}  // namespace baton
