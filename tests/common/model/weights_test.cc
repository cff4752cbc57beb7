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
  config.architecture = "llama";
  config.layers = 2;
  config.width = 8;
  config.feed_forward_width = 16;
  config.heads = 2;
  config.kv_heads = 1;
  config.head_dim = 4;
  config.vocab_size = 10;
  config.ropes = {{.dim = 4}};
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
  absl::StatusOr<ModelWeights> Load(const GgufBuilder& builder,
                                    const ModelConfig& config = LlamaConfig()) {
    const auto file = GgufFile::Parse(builder.Build(), "m.gguf");
    if (!file.ok()) return file.status();
    absl::StatusOr<ModelWeights> weights = ModelWeights::Load(
        *file, config, *backend_, [this](double done) { progress_.push_back(done); });
    EXPECT_EQ(ModelWeights::Measure(*file, config, *backend_).status(), weights.status())
        << "measuring sees every error of loading";
    return weights;
  }
  std::string ErrorOf(const GgufBuilder& builder) {
    return std::string(Load(builder).status().message());
  }

  std::unique_ptr<Backend> backend_ = *MakeBackend({.device = "cpu", .threads = 1});
  std::vector<double> progress_;
};

TEST_F(WeightsTest, MeasuringCountsWhatLoadingTakes) {
  const auto file = GgufFile::Parse(Whole().Build(), "m.gguf");
  ASSERT_TRUE(file.ok()) << file.status();
  // Rows are padded to 16: 5 norms of 8; the embedding; in both layers 8 x 16 for q, k, v and the
  // output, 8 x 16 for gate and up, and 16 x 16 for down.
  EXPECT_EQ(*ModelWeights::Measure(*file, LlamaConfig(), *backend_),
            4u * (5 * 8 + 8 * 16 + 2 * (4 * 128 + 2 * 128 + 256)));
}

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
      "m.gguf: tensor 'blk.0.attn_k.weight' has dimensions 4 x 8; the metadata requires 8 x 4");
}

TEST_F(WeightsTest, ATensorThatNobodyComputesWithIsRefused) {
  GgufBuilder builder = Whole();
  Add(builder, "blk.0.attn_sinks", {4});
  const absl::Status status = Load(builder).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(status.message(),
            "m.gguf: tensor 'blk.0.attn_sinks' is not part of the supported models of "
            "architecture 'llama'");
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
  EXPECT_TRUE(weights->rope_divisors.empty());  // the configuration names none
  ModelConfig llama3 = LlamaConfig();
  llama3.ropes[0].divisors = RopeDivisors::kFrequencies;
  EXPECT_EQ(Load(builder, llama3)->rope_divisors, (std::vector<float>{0.5f, 2.0f}));

  builder = Whole();
  builder.tensors[1].type = kF16;  // a norm: fewer bytes than were there
  EXPECT_TRUE(Load(builder).ok());
  ModelConfig wide = LlamaConfig();
  wide.ropes = {{.dim = 64}};
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
    EXPECT_EQ(ErrorOf(builder).rfind("m.gguf: tensor 'rope_freqs.weight' contains ", 0), 0u)
        << divisor;
  }
}

TEST_F(WeightsTest, TheNamedDivisorsOfLongRopeAreKeptAndTheOthersChecked) {
  ModelConfig config = LlamaConfig();
  GgufBuilder builder = Whole();
  builder.TensorWithData("rope_factors_short.weight", {2}, kF32, Floats({1.0f, 1.5f}));
  config.ropes[0].divisors = RopeDivisors::kShort;
  EXPECT_EQ(std::string(Load(builder, config).status().message()), "");
  EXPECT_EQ(Load(builder, config)->rope_divisors, (std::vector<float>{1.0f, 1.5f}));
  config.ropes[0].divisors = RopeDivisors::kLong;
  EXPECT_EQ(std::string(Load(builder, config).status().message()),
            "m.gguf: tensor 'rope_factors_long.weight' is missing");
  builder.TensorWithData("rope_factors_long.weight", {2}, kF32, Floats({1.0f, 40.0f}));
  EXPECT_EQ(Load(builder, config)->rope_divisors, (std::vector<float>{1.0f, 40.0f}));
  config.ropes[0].divisors = RopeDivisors::kShort;
  builder.tensors.pop_back();
  builder.TensorWithData("rope_factors_long.weight", {2}, kF32, Floats({1.0f, 0.0f}));
  EXPECT_EQ(std::string(Load(builder, config).status().message()),
            "m.gguf: tensor 'rope_factors_long.weight' contains 0, which is not a divisor from "
            "1e-6 to 1e6");
}

// A weight's rows, as the backend multiplies with them.
std::vector<float> RowsOf(Backend& backend, const Weight& weight) {
  Batch batch;
  std::vector<float> rows(static_cast<size_t>(weight.rows() * weight.columns()));
  for (int row = 0; row < weight.rows(); ++row) batch.tokens.push_back(InputToken::Id(row));
  backend.BeginPass({.batch = &batch});
  backend.Embed(weight, {rows.data(), weight.rows(), weight.columns()});
  return rows;
}

TEST_F(WeightsTest, MatricesThatLieInOneTensorAreTakenApart) {
  GgufBuilder builder = Whole();
  std::vector<float> rows;  // rows of Q, K and V, and of the gate and up
  for (int i = 0; i < (8 + 4 + 4) * 8; ++i) rows.push_back(static_cast<float>(i));
  std::vector<float> gated;
  for (int i = 0; i < 2 * 16 * 8; ++i) gated.push_back(static_cast<float>(-i));
  GgufBuilder fused;
  for (const GgufBuilder::TensorEntry& tensor : builder.tensors) {
    const std::string name = tensor.name.substr(0, 6) == "blk.0." ? tensor.name.substr(6) : "";
    if (name == "attn_k.weight" || name == "attn_v.weight" || name == "ffn_gate.weight") continue;
    if (name == "attn_q.weight") {
      fused.TensorWithData("blk.0.attn_qkv.weight", {8, 16}, kF32, Floats(rows));
    } else if (name == "ffn_up.weight") {
      fused.TensorWithData("blk.0.ffn_up.weight", {8, 32}, kF32, Floats(gated));
    } else {
      Add(fused, tensor.name, tensor.dims);
    }
  }
  const auto weights = Load(fused);
  ASSERT_TRUE(weights.ok()) << weights.status();
  const LayerWeights& w = weights->layers[0];
  const auto part = [](const std::vector<float>& of, int first, int count) {
    return std::vector<float>(of.begin() + first * 8, of.begin() + (first + count) * 8);
  };
  EXPECT_EQ(RowsOf(*backend_, *w.query), part(rows, 0, 8));
  EXPECT_EQ(RowsOf(*backend_, *w.key), part(rows, 8, 4));
  EXPECT_EQ(RowsOf(*backend_, *w.value), part(rows, 12, 4));
  EXPECT_EQ(RowsOf(*backend_, *w.gate), part(gated, 0, 16));
  EXPECT_EQ(RowsOf(*backend_, *w.up), part(gated, 16, 16));
}

TEST_F(WeightsTest, WhatTheConfigurationAsksForIsNamedWhereItIsMissing) {
  const auto missing = [&](const std::string& tensor, const auto& change) {
    ModelConfig config = LlamaConfig();
    change(config);
    EXPECT_EQ(std::string(Load(Whole(), config).status().message()),
              "m.gguf: tensor 'blk.0." + tensor + "' is missing");
  };
  missing("attn_q_norm.weight", [](ModelConfig& config) { config.qk_norm = QkNorm::kHead; });
  missing("attn_sinks.weight", [](ModelConfig& config) { config.sinks = true; });
  missing("attn_output.bias", [](ModelConfig& config) { config.output_bias = true; });
  missing("post_attention_norm.weight",
          [](ModelConfig& config) { config.norm_places = NormPlaces::kAround; });
}

TEST_F(WeightsTest, TheGainsOfHeadsAreOneForAllOrOneForEachValue) {
  for (const QkNorm norm : {QkNorm::kHead, QkNorm::kRow}) {
    ModelConfig config = LlamaConfig();
    config.qk_norm = norm;
    GgufBuilder builder = Whole();
    for (const std::string layer : {"blk.0.", "blk.1."}) {
      Add(builder, layer + "attn_q_norm.weight", {norm == QkNorm::kRow ? uint64_t{8} : 4});
      Add(builder, layer + "attn_k_norm.weight", {4});
    }
    EXPECT_EQ(std::string(Load(builder, config).status().message()), "");
    builder.tensors[builder.tensors.size() - 4].dims[0] = 2;
    EXPECT_EQ(Load(builder, config).status().code(), absl::StatusCode::kInvalidArgument);
  }
}

// gpt-oss has the norm before its feed-forward under the name of its place.
TEST_F(WeightsTest, TheNormBeforeTheFeedForwardHasEitherOfTwoNames) {
  GgufBuilder builder = Whole();
  for (GgufBuilder::TensorEntry& tensor : builder.tensors) {
    const size_t at = tensor.name.find("ffn_norm");
    if (at != std::string::npos) tensor.name.replace(at, 8, "post_attention_norm");
  }
  EXPECT_EQ(ErrorOf(builder), "");
  Add(builder, "blk.0.ffn_norm.weight", {8});
  EXPECT_EQ(Load(builder).status().code(), absl::StatusCode::kUnimplemented);
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
