#include "bench/model/random_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "bench/model/random_blocks.h"
#include "common/backend/make_backend.h"
#include "common/model/transformer.h"
#include "common/tokenizer/tokenizer.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr GgmlType kTypes[] = {GgmlType::kF32,  GgmlType::kF16,  GgmlType::kBf16, GgmlType::kQ8_0,
                               GgmlType::kQ4_0, GgmlType::kQ4_1, GgmlType::kQ5_0, GgmlType::kQ5_1,
                               GgmlType::kQ4_K, GgmlType::kQ5_K, GgmlType::kQ6_K};

// A shape of two layers with all that the named shapes have, in sizes that suit every weight type.
constexpr ModelShape kSmall = {.name = "small",
                               .architecture = "qwen2",
                               .layers = 2,
                               .width = 256,
                               .feed_forward_width = 512,
                               .heads = 4,
                               .kv_heads = 2,
                               .head_dim = 64,
                               .vocab_size = 300,
                               .context_length = 64,
                               .rope_base = 1e4f,
                               .norm_epsilon = 1e-5f,
                               .tied = false};

std::string ReadAll(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

std::string TemporaryPath(const std::string& name) {
  return testing::TempDir() + "/" + std::to_string(getpid()) + "_" + name;
}

TEST(RandomBlocks, HaveTheDeviationThatWasAskedForAndAMeanNearZero) {
  auto backend = *MakeBackend({.device = "cpu", .threads = 1});
  constexpr int kRows = 64;
  constexpr int kColumns = 512;
  for (const GgmlType type : kTypes) {
    const GgmlBlock block = *GgmlBlockOf(type);
    std::vector<uint8_t> bytes(kRows * kColumns / block.elements * block.bytes);
    FillRandomBlocks(type, 0.02, /*seed=*/5, absl::MakeSpan(bytes));
    auto weight = *backend->LoadWeight({"w", type, {kColumns, kRows}, bytes});
    std::vector<float> values(kRows * kColumns);
    Batch batch;
    batch.sequences = {{.row_count = kRows}};
    for (int i = 0; i < kRows; ++i) batch.tokens.push_back(InputToken::Id(i));
    backend->BeginPass({.batch = &batch});
    backend->Embed(*weight, {values.data(), kRows, kColumns});
    double sum = 0;
    double squares = 0;
    for (const float value : values) {
      sum += value;
      squares += double{value} * value;
    }
    const double count = static_cast<double>(values.size());
    EXPECT_NEAR(sum / count, 0, 0.003) << GgmlTypeName(type);
    EXPECT_NEAR(std::sqrt(squares / count), 0.02, 0.006) << GgmlTypeName(type);
  }
}

TEST(RandomBlocks, DependOnTheSeedAndOnNothingElse) {
  std::vector<uint8_t> a(2000), b(2000), other(2000);
  FillRandomBlocks(GgmlType::kQ4_1, 0.1, 1, absl::MakeSpan(a));
  FillRandomBlocks(GgmlType::kQ4_1, 0.1, 1, absl::MakeSpan(b));
  FillRandomBlocks(GgmlType::kQ4_1, 0.1, 2, absl::MakeSpan(other));
  EXPECT_EQ(a, b);
  EXPECT_NE(a, other);
}

TEST(RandomModel, LoadsInEveryTypeWithATokenizerOfItsSize) {
  auto backend = *MakeBackend({.device = "cpu", .threads = 1});
  for (const GgmlType type : kTypes) {
    const auto model = RandomModelFile::Create(kSmall, type);
    ASSERT_TRUE(model.ok()) << model.status();
    const auto file = GgufFile::Open(model->path());
    ASSERT_TRUE(file.ok()) << file.status();
    const auto transformer = Transformer::Load(*file, *backend, [](double) {});
    ASSERT_TRUE(transformer.ok()) << GgmlTypeName(type) << ": " << transformer.status();
    EXPECT_EQ((*transformer)->config().layers, kSmall.layers);
    EXPECT_EQ((*transformer)->config().vocab_size, kSmall.vocab_size);
    EXPECT_EQ((*transformer)->config().context_length, kSmall.context_length);
    const auto tokenizer = Tokenizer::Load(*file);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    EXPECT_EQ((*tokenizer)->vocab_size(), kSmall.vocab_size);
  }
}

TEST(RandomModel, HasTheTensorsAndKeysOfItsArchitecture) {
  auto backend = *MakeBackend({.device = "cpu", .threads = 1});
  for (const char* architecture : {"llama", "qwen2", "qwen3", "gemma3", "qwen3moe"}) {
    ModelShape shape = kSmall;
    shape.architecture = architecture;
    if (shape.architecture == std::string("gemma3")) shape.window = 32;
    if (shape.architecture == std::string("qwen3moe")) {
      shape.experts = 6;
      shape.experts_used = 2;
      shape.expert_width = 256;
    }
    const auto model = *RandomModelFile::Create(shape, GgmlType::kQ4_1);
    const auto transformer =
        Transformer::Load(*GgufFile::Open(model.path()), *backend, [](double) {});
    ASSERT_TRUE(transformer.ok()) << transformer.status();
    EXPECT_EQ((*transformer)->config().architecture, architecture);
    EXPECT_EQ((*transformer)->config().layer_kinds[0].window, shape.window);
    EXPECT_EQ((*transformer)->config().experts.count, shape.experts);
    EXPECT_EQ((*transformer)->config().experts.width, shape.expert_width);
  }
}

TEST(RandomModel, HasNumbersThatStayFinite) {
  auto backend = *MakeBackend({.device = "cpu", .threads = 1});
  const auto model = *RandomModelFile::Create(kSmall, GgmlType::kQ4_K);
  auto transformer = *Transformer::Load(*GgufFile::Open(model.path()), *backend, [](double) {});
  auto cache = *KvCache::Create(*backend, transformer->MakeKvLayout(16, KvType::kF16), 1);
  const std::vector<int32_t> table = {0};
  std::vector<float> logits(static_cast<size_t>(kSmall.vocab_size));
  const Batch batch{.tokens = {InputToken::Id(1), InputToken::Id(2), InputToken::Id(3)},
                    .sequences = {{0, 3, 0, table.data(), 1}},
                    .logits_rows = {2}};
  transformer->Forward(
      batch, *cache, [](int) {}, absl::MakeSpan(logits));
  double squares = 0;
  for (const float logit : logits) squares += double{logit} * logit;
  const double deviation = std::sqrt(squares / kSmall.vocab_size);
  EXPECT_GT(deviation, 0.05);
  EXPECT_LT(deviation, 5);
}

TEST(RandomModel, MayHaveHeadsOfMoreThanTheirShareOfTheWidth) {
  auto backend = *MakeBackend({.device = "cpu", .threads = 1});
  ModelShape wide = kSmall;
  wide.head_dim *= 2;
  const auto model = *RandomModelFile::Create(wide, GgmlType::kQ8_0);
  const auto transformer =
      Transformer::Load(*GgufFile::Open(model.path()), *backend, [](double) {});
  ASSERT_TRUE(transformer.ok()) << transformer.status();
  EXPECT_EQ((*transformer)->MakeKvLayout(16, KvType::kF16).head_dim, wide.head_dim);
}

TEST(RandomModel, IsTheSameFileEachTimeOnDiskAndInMemory) {
  const std::string path = TemporaryPath("random.gguf");
  ASSERT_TRUE(WriteRandomModel(kSmall, GgmlType::kQ4_1, path).ok());
  const auto model = *RandomModelFile::Create(kSmall, GgmlType::kQ4_1);
  EXPECT_TRUE(ReadAll(path) == ReadAll(model.path()));
  std::filesystem::remove(path);
}

TEST(RandomModel, RefusesByNameWhatCannotBe) {
  EXPECT_THAT(FindModelShape("gpt-5").status().message(),
              HasSubstr("--shape: 'gpt-5' is not one of smollm2-135m"));
  EXPECT_THAT(ParseWeightsType("q3_k").status().message(), HasSubstr("--weights: 'q3_k'"));
  const auto small = *FindModelShape("smollm2-135m");
  EXPECT_THAT(RandomModelFile::Create(small, GgmlType::kQ4_K).status().message(),
              HasSubstr("has rows of 576"));
  EXPECT_THAT(WriteRandomModel(small, GgmlType::kQ4_1, "/nowhere/x.gguf").message(),
              HasSubstr("/nowhere/x.gguf"));
}

}  // namespace
}  // namespace baton
