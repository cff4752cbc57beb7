// The tiny models on the CUDA backend: against the reference's logits and greedy tokens
// (tests/data/README.md), and against themselves, computed in other passes.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "common/base/check.h"
#include "common/hugging_face/open_model_file.h"
#include "tests/support/model_runner.h"

namespace baton {
namespace {

const char* const kData = BATON_TEST_DATA "/";

constexpr size_t kSteps = 2;  // decoded after a prompt

struct Case {
  std::string file;   // without .gguf, or a folder
  std::string json;   // without .json
  std::string model;  // its name in the json
  // How far a logit may be from the reference's (they reach 30), where the products of 16 rows and
  // more round their input to the weights' type.
  float tolerance;
  const char* prompt = "long";  // the second one, beside "short"
  int max_model_len = 0;
};

// The llama models, then those of other architectures.
std::vector<Case> Cases() {
  return {{"tiny/tiny-llama-f32", "tiny/tiny-llama", "f32", 1e-3f},
          {"tiny/tiny-llama-f16", "tiny/tiny-llama", "f16", 0.05f},
          {"tiny/tiny-llama-bf16", "tiny/tiny-llama", "bf16", 0.4f},
          {"tiny/tiny-mha-untied", "tiny/tiny-more", "tiny-mha-untied", 1e-3f},
          {"tiny/tiny-mqa-linear-rope", "tiny/tiny-more", "tiny-mqa-linear-rope", 1e-3f},
          {"tiny/tiny-llama3-rope", "tiny/tiny-more", "tiny-llama3-rope", 1e-3f},
          {"tiny/tiny-qwen2-bias", "tiny/tiny-more", "tiny-qwen2-bias", 1e-3f},
          {"tiny/tiny-llama-q4_1", "tiny/tiny-llama", "q4_1", 0.4f},
          {"tiny/tiny-wide-q4_k", "tiny/tiny-more", "tiny-wide-q4_k", 0.8f},
          {"arch/qwen3-untied-f32", "arch/qwen3-untied", "qwen3-untied-f32", 1e-3f, "mid"},
          {"arch/llama-yarn-f32", "arch/llama-yarn", "llama-yarn-f32", 1e-3f, "mid"},
          {"arch/mistral3-f32", "arch/mistral3", "mistral3-f32", 1e-3f},
          {"arch/smollm3-f16", "arch/smollm3", "smollm3-f16", 0.05f, "mid"},
          {"arch/olmo2-f32", "arch/olmo2", "olmo2-f32", 1e-3f, "mid"},
          {"arch/qwen3moe-f16", "arch/qwen3moe", "qwen3moe-f16", 0.05f, "mid"},
          {"arch/qwen3-tied-f16", "arch/qwen3-tied", "qwen3-tied-f16", 0.05f, "mid"},
          {"arch/gemma3-f16", "arch/gemma3", "gemma3-f16", 0.05f, "mid"},
          {"arch/gemma3-scaled-f16", "arch/gemma3-scaled", "gemma3-scaled-f16", 0.05f, "mid"},
          {"arch/llama-moe-f16", "arch/llama-moe", "llama-moe-f16", 0.05f, "mid"},
          {"arch/granite-f32", "arch/granite", "granite-f32", 1e-3f, "mid"},
          {"arch/granitemoe-f16", "arch/granitemoe", "granitemoe-f16", 0.05f, "mid"},
          {"arch/phi3-f16", "arch/phi3", "phi3-f16@512", 0.05f, "mid", 512},
          {"arch/phi3-f16", "arch/phi3", "phi3-f16@1024", 0.05f, "mid", 1024},
          {"arch/olmo3-f16", "arch/olmo3", "olmo3-f16", 0.05f, "mid"},
          {"arch/gpt-oss-f16", "arch/gpt-oss", "gpt-oss-f16", 0.05f, "mid"},
          {"arch/llama-hf-twin-f16", "arch/llama-hf", "llama-hf-twin-f16", 0.05f, "mid"},
          {"arch/qwen3-hf-twin-f32", "arch/qwen3-hf", "qwen3-hf-twin-f32", 1e-3f, "mid"},
          {"arch/llama-hf", "arch/llama-hf", "llama-hf-twin-f16", 0.4f, "mid"},
          {"arch/qwen3-hf", "arch/qwen3-hf", "qwen3-hf-twin-f32", 1e-3f, "mid"},
          {"arch/qwen3-tied-q8_0", "arch/qwen3-tied", "qwen3-tied-q8_0", 0.4f, "mid"},
          {"arch/qwen3-untied-q4_0", "arch/qwen3-untied", "qwen3-untied-q4_0", 0.4f, "mid"},
          {"arch/gemma3-q8_0", "arch/gemma3", "gemma3-q8_0", 0.4f, "mid"},
          {"arch/mistral3-q8_0", "arch/mistral3", "mistral3-q8_0", 0.4f, "mid"},
          {"arch/smollm3-q4_0", "arch/smollm3", "smollm3-q4_0", 0.4f, "mid"},
          {"arch/granite-q8_0", "arch/granite", "granite-q8_0", 0.4f, "mid"},
          {"arch/phi3-q8_0", "arch/phi3", "phi3-q8_0@1024", 0.4f, "mid", 1024},
          {"arch/olmo2-q8_0", "arch/olmo2", "olmo2-q8_0", 0.4f, "mid"},
          {"arch/qwen3moe-q8_0", "arch/qwen3moe", "qwen3moe-q8_0", 0.4f, "mid"},
          {"arch/llama-moe-q4_0", "arch/llama-moe", "llama-moe-q4_0", 0.4f, "mid"},
          {"arch/gpt-oss-mxfp4", "arch/gpt-oss", "gpt-oss-mxfp4", 0.4f, "mid"}};
}
// Those that pass composition is tested with: one type without rounding, one with.
std::vector<Case> PassCases() {
  const std::vector<Case> all = Cases();
  return {all[0], all[2]};
}

std::string CaseName(const testing::TestParamInfo<Case>& info) {
  std::string name = info.param.file;
  name.erase(0, name.find('/') + 1);
  if (info.param.max_model_len > 0) name += "_" + std::to_string(info.param.max_model_len);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

nlohmann::json PromptsOf(const Case& model) {
  std::ifstream in(kData + model.json + ".json");
  return nlohmann::json::parse(in)["models"][model.model];
}

ModelRunner MakeRunner(const Case& model, KvType kv_dtype) {
  std::string path = kData + model.file;
  if (!std::filesystem::is_directory(path)) path += ".gguf";
  const auto file = OpenModelFile(path);
  BATON_CHECK(file.ok(), "the model file must be valid");
  return ModelRunner({.path = "",
                      .file = &*file,
                      .backend = {.device = "cuda"},
                      .kv_dtype = kv_dtype,
                      .max_model_len = model.max_model_len});
}

float LargestDifference(const std::vector<float>& logits, const std::vector<float>& expected) {
  float largest = 0;
  for (size_t i = 0; i < expected.size(); ++i) {
    if (!std::isfinite(logits[i])) return INFINITY;
    largest = std::max(largest, std::fabs(logits[i] - expected[i]));
  }
  return largest;
}

std::vector<int32_t> Slice(const std::vector<int32_t>& tokens, size_t first, size_t count) {
  const auto begin = tokens.begin() + static_cast<int>(first);
  return {begin, begin + static_cast<int>(std::min(count, tokens.size() - first))};
}

class CudaModel : public testing::TestWithParam<Case> {};

TEST_P(CudaModel, HasTheReferencesLogitsAndGreedyTokens) {
  const auto prompts = PromptsOf(GetParam());
  ASSERT_FALSE(prompts.empty());
  ModelRunner runner = MakeRunner(GetParam(), KvType::kF32);
  for (const char* name : {"short", GetParam().prompt}) {
    SCOPED_TRACE(name);
    const auto& prompt = prompts[name];
    const int sequence = runner.AddSequence();
    std::vector<float> logits = runner.Append(sequence, prompt["token_ids"]);
    EXPECT_LE(LargestDifference(logits, prompt["last_logits"]), GetParam().tolerance);
    for (size_t i = 0; i < kSteps; ++i) {
      const int expected = prompt["greedy"][i];
      const int token = ArgMax(logits.data(), runner.vocab_size());
      ASSERT_TRUE(token == expected || prompt["margins"][i] < 2 * GetParam().tolerance)
          << "step " << i;
      logits = runner.Append(sequence, {expected});
    }
    runner.Release(sequence);
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, CudaModel, testing::ValuesIn(Cases()), CaseName);

TEST(CudaKv, OfNarrowTypesGivesLogitsNearTheReferences) {
  const Case model = Cases()[0];
  const auto prompts = PromptsOf(model);
  for (const auto& [dtype, tolerance] :
       {std::pair(KvType::kF16, 0.05f), std::pair(KvType::kBf16, 0.5f)}) {
    ModelRunner runner = MakeRunner(model, dtype);
    for (const auto& [name, prompt] : prompts.items()) {
      SCOPED_TRACE(name);
      const int sequence = runner.AddSequence();
      const std::vector<float> logits = runner.Append(sequence, prompt["token_ids"]);
      EXPECT_LE(LargestDifference(logits, prompt["last_logits"]), tolerance);
      runner.Release(sequence);
    }
  }
}

// In a tiny model with random weights fp8 itself is far from the reference: the CPU has the same
// codes but for those that another rounding before them moved.
TEST(CudaKv, OfAByteAnElementGivesLogitsNearTheCpus) {
  const Case model = Cases()[0];
  const auto prompts = PromptsOf(model);
  for (const auto& [dtype, tolerance] :
       {std::pair(KvType::kInt8, 0.2f), std::pair(KvType::kFp8, 0.5f)}) {
    ModelRunner cuda = MakeRunner(model, dtype);
    ModelRunner cpu({.path = kData + model.file + ".gguf", .kv_dtype = dtype});
    for (const auto& [name, prompt] : prompts.items()) {
      SCOPED_TRACE(name);
      const int ours = cuda.AddSequence();
      const int theirs = cpu.AddSequence();
      EXPECT_LE(LargestDifference(cuda.Append(ours, prompt["token_ids"]),
                                  cpu.Append(theirs, prompt["token_ids"])),
                tolerance);
      for (const int32_t token : {7, 70, 170}) {
        EXPECT_LE(LargestDifference(cuda.Append(ours, {token}), cpu.Append(theirs, {token})),
                  tolerance);
      }
      cuda.Release(ours);
      cpu.Release(theirs);
    }
  }
}

class CudaPasses : public testing::TestWithParam<Case> {
 protected:
  const std::vector<int32_t> tokens_ = PromptsOf(GetParam())["long"]["token_ids"];
  ModelRunner runner_ = MakeRunner(GetParam(), KvType::kF32);
};

TEST_P(CudaPasses, ComputeAPromptInChunksAsAtOnce) {
  const std::vector<int32_t> tokens = Slice(tokens_, 0, 80);
  const std::vector<float> whole = runner_.Append(runner_.AddSequence(), tokens);
  for (const std::vector<size_t>& chunks : {std::vector<size_t>{64, 16}, {7, 1, 40, 32}}) {
    const int sequence = runner_.AddSequence();
    std::vector<float> logits;
    size_t first = 0;
    for (const size_t chunk : chunks) {
      logits = runner_.Append(sequence, Slice(tokens, first, chunk));
      first += chunk;
    }
    EXPECT_LE(LargestDifference(logits, whole), GetParam().tolerance) << "from " << chunks[0];
    runner_.Release(sequence);
  }
}

// A long prompt's chunk, a short one and decode steps, each with the logits it has alone.
TEST_P(CudaPasses, ComputeSeveralSequencesTogetherAsEachAlone) {
  struct Part {
    size_t before;
    size_t count;
  };
  std::vector<ModelRunner::Rows> together;
  std::vector<float> alone;
  for (const Part& part : {Part{0, 1}, Part{64, 33}, Part{40, 1}, Part{0, 20}, Part{31, 2}}) {
    for (const bool in_batch : {false, true}) {
      const int sequence = runner_.AddSequence();
      if (part.before > 0) runner_.Append(sequence, Slice(tokens_, 0, part.before));
      const ModelRunner::Rows rows = {sequence, Slice(tokens_, part.before, part.count)};
      if (in_batch) {
        together.push_back(rows);
        continue;
      }
      const std::vector<float> logits = runner_.Forward({rows});
      alone.insert(alone.end(), logits.begin(), logits.end());
      runner_.Release(sequence);
    }
  }
  const std::vector<float> logits = runner_.Forward(together);
  ASSERT_EQ(logits.size(), alone.size());
  EXPECT_LE(LargestDifference(logits, alone), GetParam().tolerance);
}

INSTANTIATE_TEST_SUITE_P(Tiny, CudaPasses, testing::ValuesIn(PassCases()), CaseName);

}  // namespace
}  // namespace baton
