// The experts of ModelWeights.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "common/backend/cpu/product/cpu_weight.h"
#include "common/backend/make_backend.h"
#include "common/model/weights.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

constexpr uint32_t kMxfp4 = 39;

ModelConfig ExpertsModel() {
  ModelConfig config;
  config.architecture = "qwen3moe";
  config.layers = 1;
  config.width = 8;
  config.feed_forward_width = 16;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 4;
  config.vocab_size = 10;
  config.experts = {.count = 3, .used = 2, .width = 6};
  return config;
}

// Adds a tensor whose values count up from `first`.
void AddCounting(GgufBuilder& builder, const std::string& name, std::vector<uint64_t> dims,
                 float first = 1) {
  size_t count = 1;
  for (const uint64_t dim : dims) count *= dim;
  GgufBytes bytes;
  for (size_t i = 0; i < count; ++i) bytes.Number(first + static_cast<float>(i));
  builder.TensorWithData(name, std::move(dims), /*type=*/0, bytes.str());
}

// A file with every tensor that ExpertsModel() needs.
GgufBuilder WholeExperts() {
  GgufBuilder builder;
  AddCounting(builder, "token_embd.weight", {8, 10});
  AddCounting(builder, "blk.0.attn_norm.weight", {8});
  AddCounting(builder, "blk.0.attn_q.weight", {8, 8});
  AddCounting(builder, "blk.0.attn_k.weight", {8, 4});
  AddCounting(builder, "blk.0.attn_v.weight", {8, 4});
  AddCounting(builder, "blk.0.attn_output.weight", {8, 8});
  AddCounting(builder, "blk.0.ffn_norm.weight", {8});
  AddCounting(builder, "blk.0.ffn_gate_inp.weight", {8, 3});
  AddCounting(builder, "blk.0.ffn_gate_exps.weight", {8, 6, 3}, 1000);
  AddCounting(builder, "blk.0.ffn_up_exps.weight", {8, 6, 3}, 2000);
  AddCounting(builder, "blk.0.ffn_down_exps.weight", {6, 8, 3}, 3000);
  AddCounting(builder, "output_norm.weight", {8});
  return builder;
}

class ExpertWeightsTest : public testing::Test {
 protected:
  absl::StatusOr<ModelWeights> Load(const GgufBuilder& builder,
                                    const ModelConfig& config = ExpertsModel()) {
    const auto file = GgufFile::Parse(builder.Build(), "m.gguf");
    if (!file.ok()) return file.status();
    return ModelWeights::Load(*file, config, *backend_, [](double) {});
  }
  std::string ErrorOf(const GgufBuilder& builder, const ModelConfig& config = ExpertsModel()) {
    return std::string(Load(builder, config).status().message());
  }

  std::unique_ptr<Backend> backend_ = *MakeBackend({.device = "cpu", .threads = 1});
};

std::vector<float> RowOf(const Weight& weight, int row) {
  std::vector<float> values(static_cast<size_t>(weight.columns()));
  static_cast<const CpuWeight&>(weight).Dequantise(row, values.data());
  return values;
}

TEST_F(ExpertWeightsTest, EachExpertHasItsPartOfTheTensor) {
  const auto weights = Load(WholeExperts());
  ASSERT_TRUE(weights.ok()) << weights.status();
  const LayerWeights& layer = weights->layers[0];
  ASSERT_EQ(layer.experts.gate.size(), 3u);
  ASSERT_EQ(layer.experts.down.size(), 3u);
  EXPECT_EQ(layer.experts.up[2]->rows(), 6);
  EXPECT_EQ(layer.experts.down[2]->rows(), 8);
  EXPECT_EQ(RowOf(*layer.experts.gate[0], 0)[0], 1000);
  EXPECT_EQ(RowOf(*layer.experts.up[1], 0)[0], 2000 + 48);
  EXPECT_EQ(RowOf(*layer.experts.up[2], 5)[7], 2000 + 143);
  EXPECT_EQ(RowOf(*layer.experts.down[2], 1)[3], 3000 + 2 * 48 + 6 + 3);
  EXPECT_EQ(RowOf(*layer.experts.router, 2)[0], 1 + 16);
  EXPECT_TRUE(layer.experts.router_bias.empty());
  EXPECT_TRUE(layer.experts.down_bias.empty());
  EXPECT_EQ(layer.gate, nullptr);
}

TEST_F(ExpertWeightsTest, BiasesAreThereWhereTheFileHasThem) {
  GgufBuilder builder = WholeExperts();
  AddCounting(builder, "blk.0.ffn_gate_inp.bias", {3}, 50);
  AddCounting(builder, "blk.0.ffn_gate_exps.bias", {6, 3}, 100);
  AddCounting(builder, "blk.0.ffn_up_exps.bias", {6, 3}, 200);
  AddCounting(builder, "blk.0.ffn_down_exps.bias", {8, 3}, 300);
  const auto weights = Load(builder);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const ExpertWeights& experts = weights->layers[0].experts;
  EXPECT_EQ(experts.router_bias.data()[2], 52);
  const Experts view = experts.View(ExpertsModel());
  EXPECT_EQ(view.gate_bias[17], 117);
  EXPECT_EQ(view.up_bias[17], 217);
  EXPECT_EQ(view.down_bias[23], 323);
  EXPECT_EQ(view.used, 2);
}

TEST_F(ExpertWeightsTest, EveryTensorThatIsMissingOrOfAnotherShapeIsNamed) {
  const GgufBuilder whole = WholeExperts();
  for (size_t i = 7; i <= 10; ++i) {
    GgufBuilder builder = whole;
    builder.tensors.erase(builder.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(ErrorOf(builder), "m.gguf: tensor '" + whole.tensors[i].name + "' is missing");
    for (size_t dim = 0; dim < whole.tensors[i].dims.size(); ++dim) {
      builder = whole;
      builder.tensors[i].dims[dim] -= 1;
      EXPECT_THAT(ErrorOf(builder), testing::StartsWith("m.gguf: tensor '" + whole.tensors[i].name +
                                                        "' has dimensions "));
    }
  }
  GgufBuilder flat = whole;
  flat.tensors[8].dims = {8, 18};  // as many weights, but one matrix
  EXPECT_EQ(ErrorOf(flat),
            "m.gguf: tensor 'blk.0.ffn_gate_exps.weight' has dimensions 8 x 18; the metadata "
            "requires 8 x 6 x 3");
  GgufBuilder bias = whole;
  AddCounting(bias, "blk.0.ffn_up_exps.bias", {3, 6});
  EXPECT_EQ(
      ErrorOf(bias),
      "m.gguf: tensor 'blk.0.ffn_up_exps.bias' has dimensions 3 x 6; the metadata requires 6 x 3");
}

TEST_F(ExpertWeightsTest, ABrokenExpertIsNamedByItsTensor) {
  ModelConfig config = ExpertsModel();
  config.experts.width = 32;
  GgufBuilder builder = WholeExperts();
  builder.tensors.erase(builder.tensors.begin() + 8, builder.tensors.begin() + 11);
  AddCounting(builder, "blk.0.ffn_gate_exps.weight", {8, 32, 3});
  AddCounting(builder, "blk.0.ffn_up_exps.weight", {8, 32, 3});
  std::string down(3 * 8 * 17, 'z');
  down[2 * 8 * 17] = '\xff';  // the exponent of the last expert's first block
  builder.TensorWithData("blk.0.ffn_down_exps.weight", {32, 8, 3}, kMxfp4, down);
  EXPECT_THAT(ErrorOf(builder, config),
              testing::StartsWith("m.gguf: tensor 'blk.0.ffn_down_exps.weight': a block of MXFP4"));
}

TEST_F(ExpertWeightsTest, ASharedFeedForwardStandsBesideThem) {
  ModelConfig config = ExpertsModel();
  config.experts.shared_width = 5;
  GgufBuilder builder = WholeExperts();
  EXPECT_EQ(ErrorOf(builder, config), "m.gguf: tensor 'blk.0.ffn_gate_shexp.weight' is missing");
  AddCounting(builder, "blk.0.ffn_gate_shexp.weight", {8, 5});
  AddCounting(builder, "blk.0.ffn_up_shexp.weight", {8, 5});
  AddCounting(builder, "blk.0.ffn_down_shexp.weight", {5, 8});
  const auto weights = Load(builder, config);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->layers[0].gate->rows(), 5);
  EXPECT_EQ(weights->layers[0].experts.gate.size(), 3u);
  // Where the metadata knows of none, it is a part that nobody computes.
  EXPECT_THAT(ErrorOf(builder), testing::HasSubstr("'blk.0.ffn_gate_shexp.weight' is not part of"));
}

}  // namespace
}  // namespace baton
