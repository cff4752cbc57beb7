#include "common/model/weights.h"

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/backend/make_backend.h"
#include "common/base/float_types.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

constexpr uint32_t kF32 = 0;
constexpr uint32_t kF16 = 1;
constexpr uint32_t kQ8_0 = 8;

ModelConfig LlamaConfig() {
  ModelConfig config;
  config.layers = 2;
  config.width = 8;
  config.feed_forward_width = 16;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 4;
  config.vocab_size = 10;
  config.rope_dim = 4;
  return config;
}

std::string Floats(const std::vector<float>& values) {
  return GgufBytes().Raw({reinterpret_cast<const char*>(values.data()), values.size() * 4}).str();
}

void Add(GgufBuilder& builder, const std::string& name, std::vector<uint64_t> dims) {
  size_t count = 1;
  for (const uint64_t dim : dims) count *= dim;
  builder.TensorWithData(name, std::move(dims), kF32, Floats(std::vector<float>(count, 1.0f)));
}

// A file with every tensor that a llama of LlamaConfig() needs.
GgufBuilder Whole() {
  GgufBuilder builder;
  Add(builder, "token_embd.weight", {8, 10});
  for (const std::string layer : {"blk.0.", "blk.1."}) {
    Add(builder, layer + "attn_norm.weight", {8});
    Add(builder, layer + "attn_q.weight", {8, 8});
    Add(builder, layer + "attn_k.weight", {8, 4});
    Add(builder, layer + "attn_v.weight", {8, 4});
    Add(builder, layer + "attn_output.weight", {8, 8});
    Add(builder, layer + "ffn_norm.weight", {8});
    Add(builder, layer + "ffn_gate.weight", {8, 16});
    Add(builder, layer + "ffn_up.weight", {8, 16});
    Add(builder, layer + "ffn_down.weight", {16, 8});
  }
  Add(builder, "output_norm.weight", {8});
  return builder;
}

class WeightsTest : public testing::Test {
 protected:
  absl::StatusOr<ModelWeights> Load(const GgufBuilder& builder) {
    const auto file = GgufFile::Parse(builder.Build(), "m.gguf");
    if (!file.ok()) return file.status();
    return ModelWeights::Load(*file, LlamaConfig(), *backend_,
                              [this](double done) { progress_.push_back(done); });
  }
  std::string ErrorOf(const GgufBuilder& builder) {
    return std::string(Load(builder).status().message());
  }

  std::unique_ptr<Backend> backend_ = *MakeBackend({.device = "cpu", .threads = 1});
  std::vector<double> progress_;
};

TEST_F(WeightsTest, TheEmbeddingIsTheHeadUnlessThereIsOne) {
  const auto tied = Load(Whole());
  ASSERT_TRUE(tied.ok()) << tied.status();
  EXPECT_EQ(tied->layers.size(), 2u);
  EXPECT_EQ(&tied->head(), tied->embedding.get());
  GgufBuilder builder = Whole();
  Add(builder, "output.weight", {8, 10});
  const auto untied = Load(builder);
  ASSERT_TRUE(untied.ok()) << untied.status();
  EXPECT_EQ(&untied->head(), untied->output.get());
}

TEST_F(WeightsTest, ABiasIsThereWhereTheFileHasOne) {
  GgufBuilder builder = Whole();
  Add(builder, "blk.1.attn_k.bias", {4});
  const auto weights = Load(builder);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_TRUE(weights->layers[0].key_bias.empty());
  ASSERT_FALSE(weights->layers[1].key_bias.empty());
  EXPECT_EQ(weights->layers[1].key_bias.data()[3], 1.0f);
  EXPECT_TRUE(weights->layers[1].query_bias.empty());
}

TEST_F(WeightsTest, EveryTensorThatIsNeededIsNamedWhereItIsMissing) {
  const GgufBuilder whole = Whole();
  for (size_t i = 0; i < whole.tensors.size(); ++i) {
    GgufBuilder builder = whole;
    builder.tensors.erase(builder.tensors.begin() + static_cast<std::ptrdiff_t>(i));
    EXPECT_EQ(ErrorOf(builder), "m.gguf: tensor '" + whole.tensors[i].name + "' is missing");
  }
}

TEST_F(WeightsTest, EveryTensorOfAnotherShapeIsNamedWithBothShapes) {
  const GgufBuilder whole = Whole();
  for (size_t i = 0; i < whole.tensors.size(); ++i) {
    GgufBuilder builder = whole;
    builder.tensors[i].dims[0] -= 1;
    const std::string error = ErrorOf(builder);
    EXPECT_EQ(error.rfind("m.gguf: tensor '" + whole.tensors[i].name + "' has dimensions ", 0), 0u)
        << error;
  }
  GgufBuilder builder = whole;
  builder.tensors[3].dims = {4, 8};  // as many weights, but the other way round
  EXPECT_EQ(
      ErrorOf(builder),
      "m.gguf: tensor 'blk.0.attn_k.weight' has dimensions 4 x 8; the metadata asks for 8 x 4");
}

TEST_F(WeightsTest, ATensorThatNobodyComputesWithIsRefused) {
  GgufBuilder builder = Whole();
  Add(builder, "blk.0.attn_sinks", {4});
  const absl::Status status = Load(builder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            "m.gguf: tensor 'blk.0.attn_sinks' is no part of the supported llama and qwen2 "
            "architectures");
  builder = Whole();
  Add(builder, "blk.2.attn_norm.weight", {8});  // a layer more than the metadata says
  EXPECT_EQ(Load(builder).status().code(), absl::StatusCode::kUnimplemented);
}

TEST_F(WeightsTest, VectorsOfEveryFloatTypeAreWidenedAndOthersAreRefused) {
  GgufBuilder builder = Whole();
  const std::vector<uint16_t> halves = {F32ToF16(0.5f), F32ToF16(2.0f)};
  builder.TensorWithData("rope_freqs.weight", {2}, kF16,
                         {reinterpret_cast<const char*>(halves.data()), 4});
  const auto weights = Load(builder);
  ASSERT_TRUE(weights.ok()) << weights.status();
  EXPECT_EQ(weights->rope_divisors, (std::vector<float>{0.5f, 2.0f}));

  builder = Whole();
  builder.tensors[1].type = kF16;  // a norm: fewer bytes than were there
  EXPECT_TRUE(Load(builder).ok());
  ModelConfig wide = LlamaConfig();
  wide.rope_dim = 64;
  GgufBuilder quantised = Whole();
  quantised.TensorWithData("rope_freqs.weight", {32}, kQ8_0, std::string(34, '\0'));
  const auto file = GgufFile::Parse(quantised.Build(), "m.gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(ModelWeights::Load(*file, wide, *backend_, [](double) {}).status(),
            absl::UnimplementedError("m.gguf: tensor 'rope_freqs.weight': type Q8_0 is not "
                                     "supported for a vector; supported are F32, F16 and BF16"));
}

TEST_F(WeightsTest, RefusesADivisorThatIsNone) {
  for (const float divisor : {0.0f, -1.0f, 1e-7f, 1e7f, std::numeric_limits<float>::quiet_NaN(),
                              std::numeric_limits<float>::infinity()}) {
    GgufBuilder builder = Whole();
    builder.TensorWithData("rope_freqs.weight", {2}, kF32, Floats({1.0f, divisor}));
    EXPECT_EQ(ErrorOf(builder).rfind("m.gguf: tensor 'rope_freqs.weight' holds ", 0), 0u)
        << divisor;
  }
}

TEST_F(WeightsTest, ProgressRisesFromNothingToAll) {
  ASSERT_TRUE(Load(Whole()).ok());
  ASSERT_EQ(progress_.size(), 4u);
  EXPECT_EQ(progress_.front(), 0);
  EXPECT_EQ(progress_.back(), 1);
  for (size_t i = 1; i < progress_.size(); ++i) EXPECT_GT(progress_[i], progress_[i - 1]);
}

}  // namespace
}  // namespace baton
