// The results of `baton bench engine`, as JSON and as a table.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace baton {

// What the device can do at most, measured in the same run.
struct BenchPeaks {
  double memory_gb_s = 0;   // CPU: reads; CUDA: copies, what is read and what is written
  double int8_gops = 0;     // CPU: of products with quantised weights
  double float_gflops = 0;  // of products with float weights
};

// What computing one token takes at least, on average over the test.
struct BenchWork {
  double bytes = 0;     // read from memory: weights and KV cache
  double int8_ops = 0;  // of products with quantised weights
  double f32_ops = 0;   // of products with float weights
};

struct BenchResult {
  enum class Limit { kBandwidth, kPeak };  // what the test's share is of

  std::string test;  // "pp512", "tg64", "gemm512"
  int depth = 0;     // tokens in the cache before
  int batch = 1;     // sequences
  Limit limit = Limit::kPeak;
  BenchWork work = {};  // per token
  std::vector<double> samples =
      {};  // tokens/s of each repetition, all sequences together; not empty
  std::vector<double> read_gb_s = {};  // kBandwidth: of memory, before and after each repetition

  double Mean() const;
  double Stdev() const;  // of the sample (n - 1); 0 for one repetition
  // The part of what the machine would allow; 1 is the wall. kBandwidth: the median over the
  // repetitions, each against the memory's rate around it. kPeak: integer and float products follow
  // one another, so their times add up.
  double Share(const BenchPeaks& peaks) const;
};

struct BenchReport {
  std::string model;
  std::string weights_type;    // of most bytes, "Q4_1"
  size_t model_bytes = 0;      // of the tensors in the file
  size_t repacked_bytes = 0;   // of the weights in memory
  std::string kv_cache_dtype;  // "f16"
  std::string device = {};     // "cpu" or "cuda"
  std::string name = {};       // as the processor calls itself
  // Of a CPU only:
  std::string isa = {};
  int threads = 0;
  BenchPeaks peaks = {};
  std::vector<BenchResult> results = {};
};

// {"model", "device", then of a CPU "cpu", "isa", "threads", "memory_read_gb_s", "int8_gops",
// "f32_gflops", of a GPU "gpu", "copy_gb_s", "gemm_gflops", "results": [{"test", "depth", "batch",
// "tokens_per_s", "stdev", "samples", "share_of_bandwidth" and "step_us" of a decode, or
// "share_of_peak"}], ...}, on several lines.
std::string FormatJson(const BenchReport& report);
std::string FormatTable(const BenchReport& report);

}  // namespace baton
