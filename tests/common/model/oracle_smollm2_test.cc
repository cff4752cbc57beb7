// SmolLM2 against the reference's distributions: int8 activations, f16 KV. Needs BATON_TEST_MODEL.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "nlohmann/json.hpp"

#include "common/base/float_types.h"
#include "tests/support/distance.h"
#include "tests/support/model_runner.h"
#include "tests/support/reference_model.h"
#include "tests/support/requantise.h"

namespace baton {
namespace {

class SmolLm2Oracle : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::ifstream in(BATON_TEST_DATA "/reference/smollm2.json");
    reference_ = new nlohmann::json(nlohmann::json::parse(in));
  }
  static void TearDownTestSuite() {
    delete reference_;
    delete oracle_;
  }
  void SetUp() override {
    if (TestModelPath().empty()) GTEST_SKIP() << "set BATON_TEST_MODEL to SmolLM2's GGUF file";
  }

  static const nlohmann::json& reference() { return *reference_; }
  static const ReferenceModel& oracle() {
    if (oracle_ == nullptr) {
      auto file = GgufFile::Open(TestModelPath());
      if (!file.ok()) ADD_FAILURE() << file.status();
      oracle_ = new ReferenceModel(*file);
    }
    return *oracle_;
  }
  static ModelRunner MakeRunner() {
    return ModelRunner({.path = TestModelPath(), .max_tokens = 1100});
  }

 private:
  static nlohmann::json* reference_;
  static ReferenceModel* oracle_;
};

nlohmann::json* SmolLm2Oracle::reference_ = nullptr;
ReferenceModel* SmolLm2Oracle::oracle_ = nullptr;

// Mean of -log p(token i + 1 | tokens to i).
double MeanNll(const std::vector<float>& logits, const std::vector<int32_t>& tokens, int vocab) {
  double sum = 0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    sum -= LogSoftmax(&logits[i * vocab], vocab)[tokens[i + 1]];
  }
  return sum / static_cast<double>(tokens.size() - 1);
}

TEST_F(SmolLm2Oracle, TheFloatReferenceIsPinnedToTheRecordedLogProbabilities) {
  double largest = 0;
  for (const auto& c : reference()["cases"]) {
    SCOPED_TRACE(c["name"].get<std::string>());
    std::vector<int32_t> tokens = c["token_ids"];
    const size_t prompt = tokens.size();
    const std::vector<int32_t> greedy = c["greedy"];
    tokens.insert(tokens.end(), greedy.begin(), greedy.end());
    ReferenceKv kv;
    const std::vector<float> logits = oracle().Forward(tokens, &kv);
    for (size_t step = 0; step < greedy.size(); ++step) {
      const std::vector<double> log_p =
          LogSoftmax(&logits[(prompt - 1 + step) * oracle().vocab_size()], oracle().vocab_size());
      for (const auto& top : c["steps"][step]["top"]) {
        largest = std::max(largest, std::fabs(log_p[top[0]] - top[1].get<double>()));
      }
    }
    const size_t row = (prompt - 1) * (kv.keys[0].size() / tokens.size());
    for (const auto& [name, layer] : {std::pair("first_layer_last_token", size_t{0}),
                                      std::pair("last_layer_last_token", kv.keys.size() - 1)}) {
      const std::vector<float> k = c["kv"][name]["k"];
      const std::vector<float> v = c["kv"][name]["v"];
      for (size_t i = 0; i < k.size(); ++i) {
        EXPECT_NEAR(kv.keys[layer][row + i], k[i], 1e-3);
        EXPECT_NEAR(kv.values[layer][row + i], v[i], 1e-3);
      }
    }
  }
  std::printf("largest difference of a log-probability: %.5f\n", largest);
  EXPECT_LE(largest, 1e-3);
}

TEST_F(SmolLm2Oracle, TheTeacherForcedContinuationAgrees) {
  int wide = 0;
  for (const auto& c : reference()["cases"]) {
    SCOPED_TRACE(c["name"].get<std::string>());
    ModelRunner runner = MakeRunner();
    const int sequence = runner.AddSequence();
    std::vector<float> logits = runner.Append(sequence, c["token_ids"]);
    for (size_t step = 0; step < c["greedy"].size(); ++step) {
      const int32_t expected = c["greedy"][step];
      const int choice = ArgMax(logits.data(), runner.vocab_size());
      const auto& recorded = c["steps"][step];
      if (recorded["margin"] >= 0.5) {
        ++wide;
        EXPECT_EQ(choice, expected) << "step " << step << ", margin " << recorded["margin"];
      } else {
        bool found = false;
        for (const auto& top : recorded["top"]) found = found || top[0] == choice;
        EXPECT_TRUE(found) << "step " << step << ": " << choice;
      }
      logits = runner.Append(sequence, {expected});
    }
  }
  EXPECT_GT(wide, 0);
}

void Print(const char* type, const Distance& distance) {
  std::printf("%s: KL(reference || ours) = %.5f over %d tokens, same top token %.1f %%\n", type,
              distance.Kl(), distance.tokens, 100.0 * distance.same_top / distance.tokens);
}

constexpr double kMostKl = 0.0035;  // pooled over the passages' tokens
constexpr size_t kQ8Tokens = 300;   // tokens of each passage, to save seconds

TEST_F(SmolLm2Oracle, PassagesHaveTheReferencesLikelihoodAndDistribution) {
  Distance distance;
  for (const auto& passage : reference()["passages"]) {
    SCOPED_TRACE(passage["name"].get<std::string>());
    const std::vector<int32_t> tokens = passage["token_ids"];
    ModelRunner runner = MakeRunner();
    const int vocab = runner.vocab_size();
    const std::vector<float> ours = runner.Forward({{runner.AddSequence(), tokens}});
    const std::vector<float> expected = oracle().Forward(tokens, nullptr);
    const double recorded_nll = passage["mean_nll"];
    EXPECT_NEAR(MeanNll(expected, tokens, vocab), recorded_nll, 1e-4);
    EXPECT_NEAR(MeanNll(ours, tokens, vocab) / recorded_nll, 1, 0.005);
    for (size_t i = 0; i < tokens.size(); ++i) {
      EXPECT_EQ(ArgMax(&expected[i * vocab], vocab), passage["argmax"][i]) << "position " << i;
    }
    distance.Add(expected, ours, vocab);
  }
  Print("Q4_1", distance);
  EXPECT_LE(distance.Kl(), kMostKl);
}

TEST_F(SmolLm2Oracle, PassagesHaveTheReferencesDistributionInQ8Too) {
  auto original = GgufFile::Open(TestModelPath());
  ASSERT_TRUE(original.ok()) << original.status();
  const GgufFile file = Requantise(*original, GgmlType::kQ8_0);
  const ReferenceModel q8_oracle(file);
  ModelRunnerOptions options;
  options.file = &file;
  options.max_tokens = 1100;
  ModelRunner runner(options);
  Distance distance;
  for (const auto& passage : reference()["passages"]) {
    std::vector<int32_t> tokens = passage["token_ids"];
    tokens.resize(std::min(tokens.size(), kQ8Tokens));
    const int vocab = runner.vocab_size();
    distance.Add(q8_oracle.Forward(tokens, nullptr),
                 runner.Forward({{runner.AddSequence(), tokens}}), vocab);
  }
  Print("Q8_0", distance);
  EXPECT_LE(distance.Kl(), kMostKl);
}

}  // namespace
}  // namespace baton
