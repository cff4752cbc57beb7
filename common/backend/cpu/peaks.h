// What this CPU can do at most with some threads of one instruction set: the walls that the
// engine's speed is held against.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/backend/cpu/isa.h"
#include "common/gguf/ggml_type.h"

namespace baton {

struct CpuPeaks {
  double memory_read_gb_s = 0;  // of memory far larger than the caches, in order
  double int8_gops = 0;   // multiplications and additions of the quantised product's inner loop
  double f32_gflops = 0;  // of the float product's
};

struct CpuPeakOptions {
  CpuIsa isa = CpuIsa::kPortable;
  int threads = 1;
  std::vector<int> cpus = {};  // as in ThreadPool
  // Of the product whose inner loop `int8_gops` is; a float type means Q8_0.
  GgmlType weights_type = GgmlType::kQ8_0;
};

// Runs the loops below on threads of its own, some tenths of a second each, and keeps the best of
// several runs. RESOURCE_EXHAUSTED without memory to read. REQUIRES: CpuHas(isa).
absl::StatusOr<CpuPeaks> MeasureCpuPeaks(const CpuPeakOptions& options);

// Memory far larger than the caches, to be read again and again: what there is to be had changes
// from second to second where a host has other guests, so a rate is held against the reads just
// before and after it.
class MemoryReader {
 public:
  // REQUIRES: as MeasureCpuPeaks.
  static absl::StatusOr<std::unique_ptr<MemoryReader>> Create(const CpuPeakOptions& options);
  ~MemoryReader();

  // Of one read of all of it, some hundredths of a second.
  double GbPerSecond();

 private:
  struct Rep;
  explicit MemoryReader(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

// As the CPU calls itself.
std::string CpuName();

// What one block of a quantised product takes beside the dots, by the weights' type.
enum PeakMix { kScaleOnly, kScaleAndMin, kTwoScales, kPeakMixes };

// The loops of an instruction set (peak_kernel.h). Each returns a value that depends on all it did.
struct PeakLoops {
  // Reads memory in order. REQUIRES: floats, `bytes` a multiple of 256.
  float (*read)(const uint8_t* data, size_t bytes);
  // The inner loop of the product with quantised weights, in registers only, `blocks` blocks deep.
  float (*integer_product[kPeakMixes])(int64_t blocks);
  double integer_ops_per_block;  // multiplications and additions of the dots
  // The same of the product with float weights.
  float (*float_product)(int64_t columns);
  double float_ops_per_column;
};

}  // namespace baton
