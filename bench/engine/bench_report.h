// The results of `baton bench engine`, as JSON and as a table.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace baton {

// The limits of the device, measured in the same call of the program.
struct BenchPeaks {
  double memory_gb_s = 0;   // 10^9 bytes/s. CPU: of reads; CUDA: of copies, read plus written
  double int8_gops = 0;     // 10^9 operations/s of products with quantised weights; CUDA: 0
  double float_gflops = 0;  // 10^9 operations/s of products with float weights
};

// The least work that computes one token, on average over a test.
struct BenchWork {
  double bytes = 0;     // bytes read from memory: weights and KV cache
  double int8_ops = 0;  // multiplications and additions with quantised weights
  double f32_ops = 0;   // multiplications and additions with float weights
};

struct BenchResult {
  enum class Limit { kBandwidth, kPeak };  // the limit that a test is compared with

  std::string test;  // "pp512", "tg64", "gemm512"
  int depth = 0;     // tokens in the KV cache before the test
  int batch = 1;     // sequences computed together
  Limit limit = Limit::kPeak;
  BenchWork work = {};  // work for one token
  // Tokens/s of each repetition, all sequences together. Not empty.
  std::vector<double> samples = {};
  // kBandwidth: memory's rate around each repetition, the mean of that before and that after it.
  std::vector<double> read_gb_s = {};

  double Mean() const;
  double Stdev() const;  // standard deviation of the sample (n - 1); 0 for one repetition
  // The speed as a share of what the machine would allow; 1 is the limit. kBandwidth: the median
  // over the repetitions, each compared with the memory's rate around it. kPeak: integer and float
  // products follow one another, so their least times add up.
  double Share(const BenchPeaks& peaks) const;
};

struct BenchReport {
  std::string model;
  std::string weights_type;    // weight type with the most bytes, such as "Q4_1"
  size_t model_bytes = 0;      // bytes of the tensors in the file
  size_t repacked_bytes = 0;   // bytes of the weights in memory
  std::string kv_cache_dtype;  // such as "f16"
  int layers = 0;
  size_t kv_bytes_per_token = 0;   // K and V of all layers
  int block_size = 0;              // tokens of a KV block
  int max_num_batched_tokens = 0;  // most tokens of one prefill pass
  std::string device = {};         // "cpu" or "cuda"
  std::string name = {};           // the processor's name
  std::string isa = {};            // instruction set; empty on a GPU
  int threads = 0;                 // compute threads; 0 on a GPU
  BenchPeaks peaks = {};
  std::vector<BenchResult> results = {};
};

// One JSON object on several lines:
// - of the model: "model", "weights_type", "model_bytes", "repacked_bytes", "kv_cache_dtype",
//   "layers", "kv_bytes_per_token"; "block_size" and "max_num_batched_tokens" as they were given;
//   then "device";
// - of a CPU: "cpu", "isa", "threads", "memory_read_gb_s", "int8_gops", "f32_gflops";
// - of a GPU: "gpu", "copy_gb_s", "gemm_gflops";
// - "results": a list of {"test", "depth", "batch", "tokens_per_s", "stdev", "samples"}, each with
//   "share_of_bandwidth" and "step_us" (decode) or "share_of_peak" (the other tests).
std::string FormatJson(const BenchReport& report);
std::string FormatTable(const BenchReport& report);

}  // namespace baton
