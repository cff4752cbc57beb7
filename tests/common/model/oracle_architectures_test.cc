// One tiny model of each architecture against the reference's logits, log-probabilities and greedy
// tokens (tests/data/README.md), and its bits in every way of computing them.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "nlohmann/json.hpp"

#include "common/base/check.h"
#include "common/gguf/quantisation.h"
#include "common/hugging_face/open_model_file.h"
#include "tests/support/exactness.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/model_runner.h"
#include "tests/support/rewritten_model.h"

namespace baton {
namespace {

struct ArchitectureCase {
  std::string json;   // without .json
  std::string types;  // types of the weights, as in the file's name
  int max_model_len = 0;
  // The largest mean distance with quantised weights: twice llama.cpp's, whose activations are int8
  // too.
  double mean_distance = 0.14;
  bool folder = false;  // the Hugging Face folder with the numbers of the file
  Quantisation quantisation = Quantisation::kNone;  // while the file is loaded

  std::string path() const {
    return BATON_TEST_DATA "/arch/" + json + (folder ? "" : "-" + types + ".gguf");
  }
  GgufFile Open() const {
    auto file = OpenModelFile(path());
    BATON_CHECK(file.ok(), "the model file must be valid");
    return GgufFile::Quantised(*std::move(file), quantisation);
  }
  // The prompts of the model, by name.
  nlohmann::json Prompts() const {
    std::ifstream in(BATON_TEST_DATA "/arch/" + json + ".json");
    std::string model = json + "-" + types;
    if (max_model_len > 0) model += "@" + std::to_string(max_model_len);
    return nlohmann::json::parse(in).at("models").at(model);
  }
};

void PrintTo(const ArchitectureCase& model, std::ostream* out) { *out << model.path(); }

std::string NameOfCase(const testing::TestParamInfo<ArchitectureCase>& info) {
  std::string name = info.param.json + "_" + (info.param.folder ? "folder" : info.param.types);
  for (const auto& [flag, quantisation] : Quantisations()) {
    if (quantisation != Quantisation::kNone && quantisation == info.param.quantisation) {
      name += "_as_" + flag;
    }
  }
  if (info.param.max_model_len > 0) name += "_" + std::to_string(info.param.max_model_len);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::vector<ArchitectureCase> FloatFiles() {
  return {{"qwen3-tied", "f16"},    {"qwen3-untied", "f32"},  {"gemma3", "f16"},
          {"gemma3-scaled", "f16"}, {"mistral3", "f32"},      {"llama-yarn", "f32"},
          {"smollm3", "f16"},       {"granite", "f32"},       {"phi3", "f16", 512},
          {"phi3", "f16", 1024},    {"olmo2", "f32"},         {"olmo3", "f16"},
          {"qwen3moe", "f16"},      {"llama-moe", "f16"},     {"granitemoe", "f16"},
          {"gpt-oss", "f16"},       {"llama-hf", "twin-f16"}, {"qwen3-hf", "twin-f32"}};
}

std::vector<ArchitectureCase> FloatModels() {
  std::vector<ArchitectureCase> models = FloatFiles();
  models.push_back({.json = "llama-hf", .types = "twin-f16", .folder = true});
  models.push_back({.json = "qwen3-hf", .types = "twin-f32", .folder = true});
  return models;
}

// Those that are quantised here are judged by what the reference computed from their floats.
std::vector<ArchitectureCase> QuantisedModels() {
  std::vector<ArchitectureCase> models = {{"qwen3-tied", "q8_0"},
                                          {"qwen3-untied", "q4_0"},
                                          {"gemma3", "q8_0"},
                                          {"mistral3", "q8_0"},
                                          {"smollm3", "q4_0"},
                                          {"granite", "q8_0"},
                                          {"phi3", "q8_0", 512},
                                          {"phi3", "q8_0", 1024},
                                          {"olmo2", "q8_0"},
                                          {"qwen3moe", "q8_0", 0, 0.12},
                                          {"llama-moe", "q4_0", 0, 0.32},
                                          {"gpt-oss", "mxfp4", 0, 0.06}};
  for (const auto& [json, types] :
       {std::pair("gemma3-scaled", "f16"), std::pair("llama-yarn", "f32"),
        std::pair("granitemoe", "f16"), std::pair("olmo3", "f16"),
        std::pair("llama-hf", "twin-f16"), std::pair("qwen3-hf", "twin-f32")}) {
    models.push_back({.json = json, .types = types, .quantisation = Quantisation::kQ8_0});
  }
  return models;
}

ModelRunner RunnerOf(const ArchitectureCase& model, KvType kv_dtype) {
  const GgufFile file = model.Open();
  return ModelRunner(
      {.path = "", .file = &file, .kv_dtype = kv_dtype, .max_model_len = model.max_model_len});
}

// The distances of the log-probabilities of a prompt's tokens from those that the reference lists.
std::vector<double> DistancesFrom(const nlohmann::json& prompt, ModelRunner& runner) {
  const int vocab_size = runner.vocab_size();
  const std::vector<float> logits =
      runner.Forward({{runner.AddSequence(), prompt.at("token_ids")}});
  std::vector<double> distances;
  for (const auto& at : prompt.at("teacher_forced")) {
    const int position = at.at("pos");
    const std::vector<double> ours =
        LogSoftmax(&logits[static_cast<size_t>(position * vocab_size)], vocab_size);
    for (const auto& [token, expected] :
         at.at("top").get<std::vector<std::pair<size_t, double>>>()) {
      distances.push_back(std::fabs(ours[token] - expected));
    }
  }
  return distances;
}

double MeanOf(const std::vector<double>& values) {
  double sum = 0;
  for (const double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

double LargestOf(const std::vector<double>& values) {
  return *std::max_element(values.begin(), values.end());
}

class FloatArchitecture : public testing::TestWithParam<ArchitectureCase> {};

TEST_P(FloatArchitecture, LogitsAndGreedyTokensAreTheReferencesWithF32Kv) {
  const nlohmann::json prompts = GetParam().Prompts();
  ASSERT_EQ(prompts.size(), 3u);
  for (const auto& [name, prompt] : prompts.items()) {
    SCOPED_TRACE(name);
    ModelRunner runner = RunnerOf(GetParam(), KvType::kF32);
    const int sequence = runner.AddSequence();
    std::vector<float> logits = runner.Append(sequence, prompt.at("token_ids"));
    const std::vector<float> expected = prompt.at("last_logits");
    ASSERT_EQ(logits.size(), expected.size());
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_NEAR(logits[i], expected[i], 1e-3) << i;
    for (const int token : prompt.at("greedy")) {
      ASSERT_EQ(ArgMax(logits.data(), runner.vocab_size()), token);
      logits = runner.Append(sequence, {token});
    }
  }
}

TEST_P(FloatArchitecture, LogProbabilitiesWithinThePromptAreTheReferences) {
  const nlohmann::json prompts = GetParam().Prompts();
  for (const auto& [name, prompt] : prompts.items()) {
    ModelRunner runner = RunnerOf(GetParam(), KvType::kF32);
    EXPECT_LE(LargestOf(DistancesFrom(prompt, runner)), 1e-3) << name;
  }
}

TEST_P(FloatArchitecture, LogProbabilitiesAreNearTheReferencesWithF16Kv) {
  const nlohmann::json prompts = GetParam().Prompts();
  for (const auto& [name, prompt] : prompts.items()) {
    ModelRunner runner = RunnerOf(GetParam(), KvType::kF16);
    EXPECT_LE(LargestOf(DistancesFrom(prompt, runner)), 0.05) << name;
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, FloatArchitecture, testing::ValuesIn(FloatModels()), NameOfCase);

class QuantisedArchitecture : public testing::TestWithParam<ArchitectureCase> {};

TEST_P(QuantisedArchitecture, LogProbabilitiesAreAsNearAsActivationsOfEightBitsAllow) {
  std::vector<double> distances;
  const nlohmann::json prompts = GetParam().Prompts();
  for (const auto& [name, prompt] : prompts.items()) {
    ModelRunner runner = RunnerOf(GetParam(), KvType::kF32);
    const std::vector<double> more = DistancesFrom(prompt, runner);
    distances.insert(distances.end(), more.begin(), more.end());
  }
  EXPECT_LE(MeanOf(distances), GetParam().mean_distance);
}

INSTANTIATE_TEST_SUITE_P(Tiny, QuantisedArchitecture, testing::ValuesIn(QuantisedModels()),
                         NameOfCase);

class EveryFloatType : public testing::TestWithParam<ArchitectureCase> {};

// Products widen each weight exactly. So what the reference says of the files is true of the same
// numbers in the other types.
TEST_P(EveryFloatType, GivesTheSameBits) {
  const std::vector<int32_t> tokens = GetParam().Prompts().at("mid").at("token_ids");
  const auto compute = [&](const GgufFile& file, const Way& way) {
    const ModelRunnerOptions options = {
        .path = "", .file = &file, .max_model_len = GetParam().max_model_len};
    ModelRunner runner(With(options, way));
    return Compute(runner, runner.AddSequence(), tokens, way.schedule);
  };
  const Outcome expected = compute(GetParam().Open(), Way{});
  ASSERT_TRUE(AllFinite(expected));
  const auto vocab_size = static_cast<int>(expected.logits.size() / tokens.size());
  for (const GgmlType type : {GgmlType::kF32, GgmlType::kF16, GgmlType::kBf16}) {
    const GgufFile file = Retyped(GetParam().path(), type);
    for (const GgufTensor& tensor : file.tensors()) {
      if (tensor.name.starts_with("rope_")) continue;  // exact in F32 only
      ASSERT_EQ(tensor.type, type) << tensor.name;
    }
    for (const CpuIsa isa : InstructionSets()) {
      for (const Schedule schedule : {Schedule::kAtOnce, Schedule::kOneByOne}) {
        const Way way = {.isa = isa, .threads = 2, .schedule = schedule};
        EXPECT_EQ(FirstDifference(expected, compute(file, way), vocab_size), "")
            << GgmlTypeName(type) << ", " << Describe(way);
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, EveryFloatType, testing::ValuesIn(FloatFiles()), NameOfCase);

class EveryArchitecture : public testing::TestWithParam<ArchitectureCase> {};

TEST_P(EveryArchitecture, EveryWayToComputeGivesTheSameBits) {
  const std::vector<int32_t> tokens = GetParam().Prompts().at("mid").at("token_ids");
  const GgufFile file = GetParam().Open();
  const ModelRunnerOptions options = {
      .path = "", .file = &file, .max_tokens = 2000, .max_model_len = GetParam().max_model_len};
  ModelRunner first(With(options, Way{}));
  const int vocab_size = first.vocab_size();
  const Outcome expected = Compute(first, first.AddSequence(), tokens, Schedule::kAtOnce);
  ASSERT_TRUE(AllFinite(expected));
  for (const CpuIsa isa : InstructionSets()) {
    Way way = {.isa = isa, .threads = 3, .block_size = 16};
    ModelRunner runner(With(options, way));
    for (const Schedule schedule : kSchedules) {
      way.schedule = schedule;
      const int sequence = runner.AddSequence();
      const Outcome outcome = Compute(runner, sequence, tokens, schedule);
      EXPECT_EQ(FirstDifference(expected, outcome, vocab_size), "") << Describe(way);
      runner.Release(sequence);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Float, EveryArchitecture, testing::ValuesIn(FloatModels()), NameOfCase);
INSTANTIATE_TEST_SUITE_P(Quantised, EveryArchitecture, testing::ValuesIn(QuantisedModels()),
                         NameOfCase);

}  // namespace
}  // namespace baton
