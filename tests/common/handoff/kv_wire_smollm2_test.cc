// Tests how much int8 on the wire changes SmolLM2's distributions. Needs BATON_TEST_MODEL.
#include <cstdio>
#include <fstream>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "common/handoff/kv_wire_type.h"
#include "tests/support/distance.h"
#include "tests/support/model_runner.h"

namespace baton {
namespace {

// Converts the K and V bytes of a sequence to the wire type and back.
std::vector<uint8_t> ThereAndBack(const std::vector<uint8_t>& kv, const KvLayout& layout,
                                  KvType type) {
  const KvWireFormat format(layout, type);
  const size_t rows = kv.size() / layout.row_bytes();
  std::vector<uint8_t> values(rows * format.value_bytes());
  std::vector<uint8_t> scales(rows * format.scale_bytes());
  EXPECT_TRUE(format.Encode(kv.data(), nullptr, rows, values.data(), scales.data()));
  std::vector<uint8_t> back(kv.size());
  format.Decode(values.data(), scales.data(), rows, back.data(), nullptr);
  return back;
}

constexpr double kMostKl = 0.0035;  // mean over all passages' tokens; int8 activations cost as much

struct Lossy {
  const char* name;
  KvType wire;
  Distance distance = {};
  double nll = 0;  // negative log-likelihood, summed over tokens
};

// The sum of -log p(token i + 1 | tokens to i).
double Nll(const std::vector<float>& logits, const std::vector<int32_t>& tokens) {
  const size_t vocab = logits.size() / tokens.size();
  double sum = 0;
  for (size_t i = 0; i + 1 < tokens.size(); ++i) {
    sum -=
        LogSoftmax(&logits[i * vocab], static_cast<int>(vocab))[static_cast<size_t>(tokens[i + 1])];
  }
  return sum;
}

TEST(KvWireSmolLm2, AnInt8PromptMovesTheDistributionsOfItsContinuationLittle) {
  if (TestModelPath().empty()) GTEST_SKIP() << "set BATON_TEST_MODEL to SmolLM2's GGUF file";
  std::ifstream in(BATON_TEST_DATA "/reference/smollm2.json");
  const nlohmann::json reference = nlohmann::json::parse(in);
  ModelRunner runner({.path = TestModelPath(), .max_tokens = 4096});
  const KvLayout& layout = runner.cache().layout();
  Lossy bf16{"bf16", KvType::kBf16};  // for comparison: the effect of rounding alone
  Lossy int8{"int8", KvType::kInt8};
  double exact_nll = 0;
  double predicted = 0;  // number of predicted tokens
  for (const auto& passage : reference["passages"]) {
    const std::vector<int32_t> tokens = passage["token_ids"];
    const auto half = tokens.begin() + static_cast<std::ptrdiff_t>(tokens.size() / 2);
    const std::vector<int32_t> prompt(tokens.begin(), half);
    const std::vector<int32_t> rest(half, tokens.end());
    const int exact = runner.AddSequence();
    runner.Append(exact, prompt);
    const std::vector<uint8_t> kv = runner.KvBytes(exact);
    EXPECT_EQ(ThereAndBack(kv, layout, KvType::kF32), kv);
    const std::vector<float> expected = runner.Forward({{exact, rest}});
    exact_nll += Nll(expected, rest);
    predicted += static_cast<double>(rest.size() - 1);
    for (Lossy* type : {&bf16, &int8}) {
      const int lossy = runner.AddSequenceWithKv(ThereAndBack(kv, layout, type->wire),
                                                 static_cast<int>(prompt.size()));
      const std::vector<float> logits = runner.Forward({{lossy, rest}});
      type->distance.Add(expected, logits, runner.vocab_size());
      type->nll += Nll(logits, rest);
      runner.Release(lossy);
    }
    runner.Release(exact);
  }
  for (const Lossy& type : {bf16, int8}) {
    std::printf(
        "%s: KL(f16 || %s) = %.5f over %d tokens, same top token %.1f %%, mean negative "
        "log-likelihood %.4f for %.4f\n",
        type.name, type.name, type.distance.Kl(), type.distance.tokens,
        100.0 * type.distance.same_top / type.distance.tokens, type.nll / predicted,
        exact_nll / predicted);
  }
  EXPECT_LE(int8.distance.Kl(), kMostKl);
  EXPECT_NEAR(int8.nll / exact_nll, 1, 0.005);
}

}  // namespace
}  // namespace baton
