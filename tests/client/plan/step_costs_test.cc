#include "client/plan/step_costs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace baton {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// What the costs say of a prefill in chunks of at most 512 rows.
MeasuredPrefill Prefill(const StepCosts::ChunkCosts& costs, int tokens, int depth) {
  double seconds = 0;
  for (int done = 0; done < tokens; done += 512) {
    const int rows = std::min(512, tokens - done);
    StepShape shape;
    shape.AddChunk(rows, depth + done);
    seconds += costs.step_s + costs.row_s * rows + costs.key_s * shape.chunk_keys;
  }
  return {.tokens = tokens, .depth = depth, .seconds = seconds};
}

TEST(FitChunks, FindsTheCostsThatPrefillsWereMadeOf) {
  const StepCosts::ChunkCosts costs{.step_s = 2e-3, .row_s = 3e-4, .key_s = 5e-8};
  const StepCosts::ChunkCosts fitted =
      FitChunks({Prefill(costs, 64, 0), Prefill(costs, 512, 0), Prefill(costs, 64, 2048),
                 Prefill(costs, 2048, 1024)},
                512);
  EXPECT_NEAR(fitted.step_s, 2e-3, 1e-8);
  EXPECT_NEAR(fitted.row_s, 3e-4, 1e-9);
  EXPECT_NEAR(fitted.key_s, 5e-8, 1e-12);
}

TEST(FitChunks, OfOnePrefillIsATimeForEachRow) {
  const StepCosts::ChunkCosts fitted =
      FitChunks({{.tokens = 100, .depth = 0, .seconds = 0.05}}, 512);
  EXPECT_NEAR(fitted.row_s, 5e-4, 1e-12);
  EXPECT_EQ(fitted.step_s, 0);
  EXPECT_EQ(fitted.key_s, 0);
}

TEST(FitChunks, IsNeverNegativeWhereLongPromptsAreFaster) {
  const StepCosts::ChunkCosts fitted = FitChunks({{.tokens = 64, .depth = 0, .seconds = 0.064},
                                                  {.tokens = 512, .depth = 0, .seconds = 0.4},
                                                  {.tokens = 64, .depth = 1024, .seconds = 0.05}},
                                                 512);
  EXPECT_GE(fitted.step_s, 0);
  EXPECT_GT(fitted.row_s, 0);
  EXPECT_GE(fitted.key_s, 0);
}

TEST(FitDecodes, AreLinesOverTheContext) {
  const auto costs = FitDecodes({{.batch = 8, .context = 1000, .step_s = 9e-3},
                                 {.batch = 1, .context = 0, .step_s = 2e-3},
                                 {.batch = 1, .context = 1000, .step_s = 3e-3},
                                 {.batch = 8, .context = 0, .step_s = 5e-3}});
  ASSERT_EQ(costs.size(), 2u);
  EXPECT_EQ(costs[0].batch, 1);
  EXPECT_NEAR(costs[0].step_s, 2e-3, 1e-12);
  EXPECT_NEAR(costs[0].context_token_s, 1e-6, 1e-15);
  EXPECT_EQ(costs[1].batch, 8);
  EXPECT_NEAR(costs[1].context_token_s, 4e-6, 1e-15);
}

StepCosts TwoBatches() {
  return StepCosts({.layers = 1}, {.step_s = 1e-3, .row_s = 1e-4, .key_s = 1e-7},
                   {{.batch = 1, .step_s = 2e-3, .context_token_s = 1e-6},
                    {.batch = 9, .step_s = 10e-3, .context_token_s = 9e-6}});
}

TEST(StepCosts, InterpolateBetweenBatchesAndGoOnBeyond) {
  const StepCosts costs = TwoBatches();
  EXPECT_EQ(costs.StepNanoseconds({.decodes = 1, .decode_context = 1000}), 3'000'000);
  EXPECT_EQ(costs.StepNanoseconds({.decodes = 5, .decode_context = 5 * 1000}), 11'000'000);
  EXPECT_EQ(costs.StepNanoseconds({.decodes = 17, .decode_context = 0}), 18'000'000);
}

TEST(StepCosts, OfChunksBesideDecodesLeaveTheirStepOut) {
  const StepCosts costs = TwoBatches();
  StepShape shape;
  shape.AddChunk(100, 50);  // 100 * (50 + 50.5) keys
  EXPECT_EQ(costs.StepNanoseconds(shape), 1'000'000 + 10'000'000 + 1'005'000);
  shape.decodes = 1;
  EXPECT_EQ(costs.StepNanoseconds(shape), 2'000'000 + 10'000'000 + 1'005'000);
}

constexpr char kRates[] = R"({"model": "tiny", "device": "cpu", "layers": 30,
  "kv_bytes_per_token": 23040, "block_size": 32, "max_num_batched_tokens": 512, "results": [
  {"test": "pp64", "depth": 0, "batch": 1, "tokens_per_s": 1000},
  {"test": "pp512", "depth": 0, "batch": 1, "tokens_per_s": 2000},
  {"test": "tg32", "depth": 0, "batch": 1, "tokens_per_s": 250},
  {"test": "tg32", "depth": 1024, "batch": 1, "tokens_per_s": 200},
  {"test": "tg32", "depth": 0, "batch": 8, "tokens_per_s": 1000},
  {"test": "tg32", "depth": 1024, "batch": 8, "tokens_per_s": 800},
  {"test": "gemm512", "depth": 0, "batch": 1, "tokens_per_s": 1}]})";

TEST(StepCosts, AreReadFromTheEnginesBench) {
  const auto costs = StepCosts::Parse(kRates, "rates.json");
  ASSERT_TRUE(costs.ok()) << costs.status();
  EXPECT_EQ(costs->facts().model, "tiny");
  EXPECT_EQ(costs->facts().layers, 30);
  EXPECT_EQ(costs->facts().kv_bytes_per_token, 23040);
  EXPECT_EQ(costs->facts().block_size, 32);
  EXPECT_EQ(costs->facts().max_num_batched_tokens, 512);
  EXPECT_EQ(costs->decodes().size(), 2u);
  // At the mean context of the measurement a step takes what was measured.
  EXPECT_NEAR(static_cast<double>(
                  costs->StepNanoseconds({.decodes = 8, .decode_context = 8 * (1024 + 16)})),
              8.0 / 800 * 1e9, 1e5);
}

TEST(StepCosts, ErrorsNameTheFileTheFieldAndHowToMeasure) {
  const auto error = [](const std::string& from, const std::string& to) {
    const std::string text = absl::StrReplaceAll(kRates, {{from, to}});
    return StepCosts::Parse(text, "rates.json").status().ToString();
  };
  const auto names = [](const std::string& word) {
    return AllOf(HasSubstr("--rates: rates.json"), HasSubstr(word),
                 HasSubstr("baton bench engine --model"));
  };
  EXPECT_THAT(StepCosts::Parse("[]", "rates.json").status().ToString(), names("not a JSON object"));
  EXPECT_THAT(error("\"layers\": 30,", ""), names("layers is missing"));
  EXPECT_THAT(error("23040", "-1"), names("kv_bytes_per_token"));
  EXPECT_THAT(error("\"block_size\": 32", "\"block_size\": 1.5"), names("block_size"));
  EXPECT_THAT(error("\"max_num_batched_tokens\": 512", "\"max_num_batched_tokens\": 1"),
              names("max_num_batched_tokens"));
  EXPECT_THAT(error("\"results\"", "\"rows\""), names("results must be a list"));
  EXPECT_THAT(error("pp", "xx"), names("no prefill"));
  EXPECT_THAT(error("pp64", "ppx"), names("'ppx'"));
  EXPECT_THAT(error("\"batch\": 8", "\"batch\": 1"), names("fewer than 2 batch sizes"));
  EXPECT_THAT(error("1024", "0"), names("one depth"));
  EXPECT_THAT(error("250", "\"fast\""), names("tokens_per_s"));
}

}  // namespace
}  // namespace baton
