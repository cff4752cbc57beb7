// Which experts a decode step reaches.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/model/transformer.h"
#include "tests/support/exactness.h"
#include "tests/support/model_runner.h"
#include "tests/support/rewritten_model.h"

namespace baton {
namespace {

constexpr int kPrompt = 12;

class Mixtures : public testing::TestWithParam<const char*> {
 protected:
  std::string path() const { return absl::StrCat(BATON_TEST_DATA "/arch/", GetParam(), ".gguf"); }
  // The model whose layer has NaNs in all that one of its experts holds.
  GgufFile WithoutExpert(int layer, int expert, int experts) const {
    return RewrittenModel(path(), [&](WrittenTensor& tensor) {
      if (!absl::StartsWith(tensor.name, absl::StrCat("blk.", layer, ".ffn_")) ||
          !absl::StrContains(tensor.name, "_exps.")) {
        return;
      }
      const auto bytes = static_cast<int64_t>(tensor.bytes.size()) / experts;
      constexpr char kNan = '\xff';  // in every byte: a NaN of every type of floats
      std::fill_n(tensor.bytes.begin() + expert * bytes, bytes, kNan);
    });
  }
};

TEST_P(Mixtures, DecodeReadsAsManyExpertsOfALayerAsATokenUses) {
  ModelRunner runner({.path = path()});
  const ExpertsConfig experts = runner.transformer().config().experts;
  const int layers = runner.transformer().config().layers;
  const std::vector<int32_t> tokens = RandomTokens(kPrompt + 1, runner.vocab_size(), 1);
  const int sequence = runner.AddSequence();
  runner.Append(sequence, {tokens.begin(), tokens.end() - 1});
  const std::vector<uint8_t> kv = runner.KvBytes(sequence);
  const std::vector<float> expected = runner.Append(sequence, {tokens.back()});
  for (int layer = 0; layer < layers; ++layer) {
    int reached = 0;
    for (int expert = 0; expert < experts.count; ++expert) {
      const GgufFile file = WithoutExpert(layer, expert, experts.count);
      ModelRunner decode({.path = "", .file = &file});
      const std::vector<float> logits =
          decode.Append(decode.AddSequenceWithKv(kv, kPrompt), {tokens.back()});
      if (std::isnan(logits[0])) {
        ++reached;
      } else {
        EXPECT_EQ(logits, expected) << "layer " << layer << ", expert " << expert;
      }
    }
    EXPECT_EQ(reached, experts.used) << "layer " << layer;
  }
}

INSTANTIATE_TEST_SUITE_P(Tiny, Mixtures,
                         testing::Values("qwen3moe-f16", "llama-moe-f16", "granitemoe-f16",
                                         "gpt-oss-f16"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::replace(name.begin(), name.end(), '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace baton
