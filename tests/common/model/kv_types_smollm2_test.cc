// What a KV cache of a byte or half a byte an element does to SmolLM2's distributions. Needs
// BATON_TEST_MODEL.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <fstream>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "tests/support/distance.h"
#include "tests/support/model_runner.h"

namespace baton {
namespace {

constexpr size_t kTokens = 400;  // tokens of each passage, to save seconds

// Pooled over the tokens of the passages, all of whose KV is of the type.
TEST(KvTypesSmolLm2, AQuantisedCacheMovesTheDistributionsLittle) {
  if (TestModelPath().empty()) GTEST_SKIP() << "set BATON_TEST_MODEL to SmolLM2's GGUF file";
  std::ifstream in(BATON_TEST_DATA "/reference/smollm2.json");
  const nlohmann::json reference = nlohmann::json::parse(in);
  const auto forward = [](KvType dtype, const std::vector<int32_t>& tokens) {
    ModelRunner runner({.path = TestModelPath(), .kv_dtype = dtype, .max_tokens = 1100});
    return std::pair(runner.Forward({{runner.AddSequence(), tokens}}), runner.vocab_size());
  };
  struct Type {
    const char* name;
    KvType dtype;
    double most_kl;
    Distance distance = {};
    double nll_sum = 0;  // over the passages' own tokens
  };
  // The sum of the negative log-likelihoods of all tokens but the first.
  const auto nll = [](const std::vector<float>& logits, const std::vector<int32_t>& tokens,
                      int vocab) {
    double sum = 0;
    for (size_t i = 0; i + 1 < tokens.size(); ++i) {
      const float* const row = logits.data() + i * static_cast<size_t>(vocab);
      sum -= LogSoftmax(row, vocab)[static_cast<size_t>(tokens[i + 1])];
    }
    return sum;
  };
  Type types[] = {{"bf16", KvType::kBf16, 0.004},  // a mere rounding, to compare
                  {"int8", KvType::kInt8, 0.005},
                  {"fp8", KvType::kFp8, 0.016},
                  {"int4", KvType::kInt4, 0.06}};
  double f16_nll = 0;
  int predicted = 0;
  for (const auto& passage : reference["passages"]) {
    std::vector<int32_t> tokens = passage["token_ids"];
    tokens.resize(std::min(tokens.size(), kTokens));
    const auto [expected, vocab] = forward(KvType::kF16, tokens);
    f16_nll += nll(expected, tokens, vocab);
    predicted += static_cast<int>(tokens.size()) - 1;
    for (Type& type : types) {
      const std::vector<float> logits = forward(type.dtype, tokens).first;
      type.distance.Add(expected, logits, vocab);
      type.nll_sum += nll(logits, tokens, vocab);
    }
  }
  const double f16_perplexity = std::exp(f16_nll / predicted);
  for (const Type& type : types) {
    std::printf(
        "KL(KV of f16 || of %s) = %.5f over %d tokens, same top token %.1f %%, perplexity %.3f for "
        "%.3f\n",
        type.name, type.distance.Kl(), type.distance.tokens,
        100.0 * type.distance.same_top / type.distance.tokens, std::exp(type.nll_sum / predicted),
        f16_perplexity);
    EXPECT_LE(type.distance.Kl(), type.most_kl) << type.name;
  }
}

}  // namespace
}  // namespace baton
