#include "bench/engine/engine_bench.h"

#include <gtest/gtest.h>

#include <string>

#include "bench/model/random_model.h"
#include "common/base/clock.h"

namespace baton {
namespace {

std::string TinyModel(const std::string& type) {
  return std::string(BATON_TEST_DATA) + "/tiny/tiny-llama-" + type + ".gguf";
}

std::unique_ptr<EngineBench> Load(const std::string& path) {
  auto bench = EngineBench::Load(
      path,
      {.backend = {.device = "cpu", .threads = 2}, .block_size = 16, .max_num_batched_tokens = 64},
      [](double) {});
  EXPECT_TRUE(bench.ok()) << bench.status();
  return *std::move(bench);
}

// Multiplications and additions for one row in the matrix products of all layers.
double LayerOps(const ModelConfig& c) {
  const double attention = 2.0 * c.heads * c.head_dim + 2.0 * c.kv_heads * c.head_dim;
  return 2.0 * c.layers * c.width * (attention + 3.0 * c.feed_forward_width);
}

TEST(EngineBench, CountsTheOperationsOfTheLayersAndOneHeadAPrompt) {
  const auto bench = Load(TinyModel("q4_1"));
  const ModelConfig& config = bench->config();
  const double head = 2.0 * config.width * config.vocab_size;
  const BenchWork work = bench->PrefillWork(100);
  EXPECT_DOUBLE_EQ(work.int8_ops, LayerOps(config) + head / 100);
  EXPECT_DOUBLE_EQ(work.f32_ops, 0);
  EXPECT_DOUBLE_EQ(bench->ProductsWork().int8_ops, LayerOps(config));
}

TEST(EngineBench, CountsFloatWeightsAsFloatOperations) {
  const auto bench = Load(TinyModel("f16"));
  const BenchWork work = bench->ProductsWork();
  EXPECT_DOUBLE_EQ(work.f32_ops, LayerOps(bench->config()));
  EXPECT_DOUBLE_EQ(work.int8_ops, 0);
}

TEST(EngineBench, CountsOfExpertsThoseThatARowUses) {
  const auto bench = Load(std::string(BATON_TEST_DATA) + "/arch/qwen3moe-q8_0.gguf");
  const ModelConfig& c = bench->config();
  const double attention = 2.0 * c.heads * c.head_dim + 2.0 * c.kv_heads * c.head_dim;
  const double ops =
      2.0 * c.layers * c.width * (attention + 3.0 * c.experts.used * c.experts.width);
  EXPECT_DOUBLE_EQ(bench->ProductsWork().int8_ops, ops);
  EXPECT_DOUBLE_EQ(bench->ProductsWork().f32_ops, 2.0 * c.layers * c.width * c.experts.count);
  const double unused =
      3.0 * c.layers * c.width * c.experts.width * (c.experts.count - c.experts.used) * 34 / 32;
  const double kv_bytes = 2.0 * 2 * c.layers * c.kv_heads * c.head_dim;
  const double read = bench->DecodeWork(/*depth=*/0, /*steps=*/1, /*sequences=*/1).bytes - kv_bytes;
  EXPECT_LE(read, static_cast<double>(bench->repacked_bytes()) - unused);
  EXPECT_GE(read, ops / 2 * 34 / 32);
  ASSERT_TRUE(bench->Reserve(/*first_tokens=*/40, /*tokens=*/40, /*sequences=*/2).ok());
  bench->Prepare(/*depth=*/10, /*sequences=*/2, [] {});
  EXPECT_GT(bench->Decode(2), absl::ZeroDuration());
  auto buffers = bench->MakeProductBuffers(20);
  ASSERT_TRUE(buffers.ok()) << buffers.status();
  EXPECT_GT(bench->Products(*buffers), absl::ZeroDuration());
}

TEST(EngineBench, ReadsTheWeightsOnceAStepAndEachSequencesCache) {
  const auto bench = Load(TinyModel("f32"));
  const ModelConfig& config = bench->config();
  const double kv_bytes_per_token = 2.0 * 2 * config.layers * config.kv_heads * config.head_dim;
  const double one = bench->DecodeWork(/*depth=*/100, /*steps=*/1, /*sequences=*/1).bytes;
  const double four = bench->DecodeWork(/*depth=*/100, /*steps=*/1, /*sequences=*/4).bytes;
  // A step attends to the 100 tokens before it and to its own.
  EXPECT_DOUBLE_EQ(4 * (four - 101 * kv_bytes_per_token), one - 101 * kv_bytes_per_token);
  // Packing fills rows up to whole groups, so the weights may have more bytes than the operations
  // need.
  const double least =
      (LayerOps(config) + 2.0 * config.width * config.vocab_size) / 2 * sizeof(float);
  EXPECT_GE(one, least);
  EXPECT_LT(one, 1.3 * least + 101 * kv_bytes_per_token);
  // Steps after 100, 101 and 102 tokens attend to 102 on average, their own included.
  EXPECT_DOUBLE_EQ(bench->DecodeWork(100, 3, 1).bytes - one, kv_bytes_per_token);
}

TEST(EngineBench, RunsEveryTestInAnyOrderAndAgain) {
  const auto bench = Load(TinyModel("q8_0"));
  ASSERT_TRUE(bench->Reserve(/*first_tokens=*/200, /*tokens=*/150, /*sequences=*/3).ok());
  int chunks = 0;
  for (const int depth : {100, 0, 70}) {
    bench->Prepare(depth, 1, [&] { ++chunks; });
    EXPECT_GT(bench->Prefill(100), absl::ZeroDuration());
    bench->Prepare(depth, 3, [&] { ++chunks; });
    EXPECT_GT(bench->Decode(4), absl::ZeroDuration());
    EXPECT_GT(bench->Decode(4), absl::ZeroDuration());
  }
  // 100 tokens are two chunks of at most 64. The decode at depth 0 then overwrote the prompt, so
  // that 70 tokens were two more chunks.
  EXPECT_EQ(chunks, 4);
  auto buffers = bench->MakeProductBuffers(32);
  ASSERT_TRUE(buffers.ok()) << buffers.status();
  EXPECT_GT(bench->Products(*buffers), absl::ZeroDuration());
}

TEST(EngineBench, TellsTheTimeOfAllLayersWhereASampleOfProductsHasOne) {
  constexpr ModelShape kShape = {.name = "six layers",
                                 .architecture = "llama",
                                 .layers = 6,
                                 .width = 768,
                                 .feed_forward_width = 1792,
                                 .heads = 12,
                                 .kv_heads = 12,
                                 .head_dim = 64,
                                 .vocab_size = 300,
                                 .context_length = 64,
                                 .rope_base = 1e4f,
                                 .norm_epsilon = 1e-5f,
                                 .tied = true};
  constexpr int kRows = 4096;  // the products of one layer with these rows exceed half a sample
  const auto file = RandomModelFile::Create(kShape, GgmlType::kQ8_0);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto bench = Load(file->path());
  EXPECT_DOUBLE_EQ(bench->ProductsWork().int8_ops, LayerOps(bench->config()));
  auto buffers = bench->MakeProductBuffers(kRows);
  ASSERT_TRUE(buffers.ok()) << buffers.status();
  const absl::Time start = SteadyNow();
  const absl::Duration all_layers = bench->Products(*buffers);
  const absl::Duration of_the_call = SteadyNow() - start;
  // The result is six times the time of one layer, which is nearly all of the call.
  EXPECT_GT(all_layers, 2 * of_the_call);
}

TEST(EngineBench, RefusesACacheThatMemoryCannotHold) {
  const auto bench = Load(TinyModel("q8_0"));
  const absl::Status status = bench->Reserve(500, 500, 1 << 20);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
}

}  // namespace
}  // namespace baton
