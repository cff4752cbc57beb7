// How far SmolLM2's distributions on the CUDA backend are from the float32 oracle's. Needs
// BATON_TEST_MODEL.
#include <cstdio>
#include <fstream>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/support/distance.h"
#include "tests/support/model_runner.h"
#include "tests/support/reference_model.h"
#include "tests/support/requantise.h"

namespace baton {
namespace {

constexpr size_t kPrompt = 24;  // in one pass, as a prefill
constexpr size_t kDecoded = 4;  // a token at a time

double KlOf(const GgufFile& file) {
  std::ifstream in(BATON_TEST_DATA "/reference/smollm2.json");
  std::vector<int32_t> tokens = nlohmann::json::parse(in)["passages"][0]["token_ids"];
  tokens.resize(kPrompt + kDecoded);
  ModelRunnerOptions options;
  options.file = &file;
  options.backend = {.device = "cuda"};
  ModelRunner runner(options);
  const int sequence = runner.AddSequence();
  const std::vector<int32_t> prompt(tokens.begin(), tokens.begin() + kPrompt);
  std::vector<float> logits = runner.Forward({{sequence, prompt}});
  for (size_t i = kPrompt; i < tokens.size(); ++i) {
    const std::vector<float> next = runner.Append(sequence, {tokens[i]});
    logits.insert(logits.end(), next.begin(), next.end());
  }
  Distance distance;
  distance.Add(ReferenceModel(file).Forward(tokens, nullptr), logits, runner.vocab_size());
  std::printf("KL %.6f over %d tokens, %d with the same first choice\n", distance.Kl(),
              distance.tokens, distance.same_top);
  return distance.Kl();
}

TEST(CudaSmolLm2, HasTheOraclesDistributions) {
  if (TestModelPath().empty()) GTEST_SKIP() << "set BATON_TEST_MODEL to SmolLM2's GGUF file";
  const auto file = GgufFile::Open(TestModelPath());
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_LE(KlOf(*file), 0.0035);
  EXPECT_LE(KlOf(Requantise(*file, GgmlType::kBf16)), 0.001);
}

}  // namespace
}  // namespace baton
