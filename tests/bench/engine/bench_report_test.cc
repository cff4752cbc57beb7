#include "bench/engine/bench_report.h"

#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>

namespace baton {
namespace {

BenchReport MakeReport() {
  return {.model = "tiny \"x\"",
          .weights_type = "Q4_1",
          .model_bytes = 1000,
          .repacked_bytes = 1100,
          .kv_cache_dtype = "f16",
          .layers = 30,
          .kv_bytes_per_token = 23040,
          .block_size = 32,
          .max_num_batched_tokens = 512,
          .device = "cpu",
          .name = "CPU",
          .isa = "avx2",
          .threads = 2,
          .peaks = {.memory_gb_s = 40, .int8_gops = 2000, .float_gflops = 500},
          .results = {{.test = "pp512",
                       .depth = 64,
                       .limit = BenchResult::Limit::kPeak,
                       .work = {.bytes = 1, .int8_ops = 2e8, .f32_ops = 0},
                       .samples = {4000, 5000, 6000}},
                      {.test = "tg64",
                       .batch = 16,
                       .limit = BenchResult::Limit::kBandwidth,
                       .work = {.bytes = 1e8, .int8_ops = 1, .f32_ops = 1},
                       .samples = {300},
                       .read_gb_s = {40}}}};
}

TEST(BenchResult, TakesMeanAndSampleDeviation) {
  const BenchResult result{.test = "t", .samples = {4000, 5000, 6000}};
  EXPECT_DOUBLE_EQ(result.Mean(), 5000);
  EXPECT_DOUBLE_EQ(result.Stdev(), 1000);
  const BenchResult once{.test = "t", .samples = {7}};
  EXPECT_DOUBLE_EQ(once.Mean(), 7);
  EXPECT_DOUBLE_EQ(once.Stdev(), 0);
}

TEST(BenchResult, SharesAreOfTheWallThatLimitsTheTest) {
  const BenchReport report = MakeReport();
  EXPECT_DOUBLE_EQ(report.results[0].Share(report.peaks), 5000 * 2e8 / 2000e9);
  EXPECT_DOUBLE_EQ(report.results[1].Share(report.peaks), 300 * 1e8 / 40e9);
}

TEST(BenchResult, HoldsEachDecodeAgainstTheMemoryAroundIt) {
  const BenchResult result{.test = "t",
                           .limit = BenchResult::Limit::kBandwidth,
                           .work = {.bytes = 1e9},
                           .samples = {10, 40, 30},
                           .read_gb_s = {20, 50, 100}};  // shares 0.5, 0.8 and 0.3
  EXPECT_DOUBLE_EQ(result.Share({.memory_gb_s = 1000, .int8_gops = 1, .float_gflops = 1}), 0.5);
  const BenchResult two{.test = "t",
                        .limit = BenchResult::Limit::kBandwidth,
                        .work = {.bytes = 1e9},
                        .samples = {10, 40},
                        .read_gb_s = {20, 50}};
  EXPECT_DOUBLE_EQ(two.Share({}), 0.65);
}

TEST(BenchResult, AddsTheTimesOfIntegerAndFloatProducts) {
  const BenchResult mixed{.test = "t",
                          .limit = BenchResult::Limit::kPeak,
                          .work = {.int8_ops = 1e9, .f32_ops = 1e9},
                          .samples = {100}};
  const BenchPeaks peaks{.memory_gb_s = 1, .int8_gops = 1000, .float_gflops = 250};
  EXPECT_DOUBLE_EQ(mixed.Share(peaks), 100 * (1e-3 + 4e-3));
}

TEST(FormatJson, HoldsEveryFieldThatAComparisonReads) {
  const auto json = nlohmann::json::parse(FormatJson(MakeReport()));
  EXPECT_EQ(json["model"], "tiny \"x\"");
  EXPECT_EQ(json["layers"], 30);
  EXPECT_EQ(json["kv_bytes_per_token"], 23040);
  EXPECT_EQ(json["block_size"], 32);
  EXPECT_EQ(json["max_num_batched_tokens"], 512);
  EXPECT_EQ(json["device"], "cpu");
  EXPECT_EQ(json["cpu"], "CPU");
  EXPECT_EQ(json["isa"], "avx2");
  EXPECT_EQ(json["threads"], 2);
  EXPECT_DOUBLE_EQ(json["memory_read_gb_s"], 40);
  EXPECT_DOUBLE_EQ(json["int8_gops"], 2000);
  EXPECT_DOUBLE_EQ(json["f32_gflops"], 500);
  ASSERT_EQ(json["results"].size(), 2u);
  const auto& prefill = json["results"][0];
  EXPECT_EQ(prefill["test"], "pp512");
  EXPECT_EQ(prefill["depth"], 64);
  EXPECT_EQ(prefill["batch"], 1);
  EXPECT_DOUBLE_EQ(prefill["tokens_per_s"], 5000);
  EXPECT_DOUBLE_EQ(prefill["stdev"], 1000);
  EXPECT_EQ(prefill["samples"], (std::vector<double>{4000, 5000, 6000}));
  EXPECT_DOUBLE_EQ(prefill["share_of_peak"], 0.5);
  EXPECT_FALSE(prefill.contains("share_of_bandwidth"));
  const auto& decode = json["results"][1];
  EXPECT_EQ(decode["batch"], 16);
  EXPECT_DOUBLE_EQ(decode["share_of_bandwidth"], 0.75);
  EXPECT_FALSE(decode.contains("share_of_peak"));
  EXPECT_DOUBLE_EQ(decode["step_us"], 16e6 / decode["tokens_per_s"].get<double>());
  EXPECT_FALSE(prefill.contains("step_us"));
}

BenchReport MakeGpuReport() {
  BenchReport report = MakeReport();
  report.device = "cuda";
  report.name = "cuda:0 GPU";
  report.isa = "";
  report.threads = 0;
  report.peaks = {.memory_gb_s = 4000, .float_gflops = 800000};
  report.results[0].work = {.f32_ops = 4e10};
  report.results[1].read_gb_s = {3000};
  return report;
}

TEST(FormatJson, NamesAGpusOwnWalls) {
  const auto json = nlohmann::json::parse(FormatJson(MakeGpuReport()));
  EXPECT_EQ(json["device"], "cuda");
  EXPECT_EQ(json["gpu"], "cuda:0 GPU");
  EXPECT_DOUBLE_EQ(json["copy_gb_s"], 4000);
  EXPECT_DOUBLE_EQ(json["gemm_gflops"], 800000);
  for (const char* key : {"cpu", "isa", "threads", "int8_gops"}) EXPECT_FALSE(json.contains(key));
  EXPECT_DOUBLE_EQ(json["results"][0]["share_of_peak"], 0.25);
}

TEST(FormatTable, NamesAGpusOwnWalls) {
  const std::string table = FormatTable(MakeGpuReport());
  for (const char* part : {"cuda:0 GPU: copies 4000 GB/s, products 800000 GFLOP/s\n",
                           "25.0 % of peak", "1.0 % of copies"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
}

TEST(FormatTable, HasALineForEachTest) {
  const std::string table = FormatTable(MakeReport());
  for (const char* part :
       {"tiny \"x\", Q4_1", "avx2, 2 threads", "40.0 GB/s", "| pp512 @ d64 ", "5000.00 +- 1000.00",
        "50.0 % of peak", "| tg64, 16 sequences ", "300.00 +- 0.00", "75.0 % of reads"}) {
    EXPECT_NE(table.find(part), std::string::npos) << part << "\n" << table;
  }
}

}  // namespace
}  // namespace baton
