// The highest speeds that this CPU reaches with some threads of one instruction set: the limits
// that the engine's speed is compared with.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "common/backend/cpu/simd/isa.h"
#include "common/gguf/ggml_type.h"

namespace baton {

struct CpuPeaks {
  double memory_read_gb_s = 0;  // reads, in order, of memory far larger than the caches, GB/s
  double int8_gops = 0;   // multiplications and additions of the quantised product's inner loop
  double f32_gflops = 0;  // multiplications and additions of the float product's inner loop
};

struct CpuPeakOptions {
  CpuIsa isa = CpuIsa::kPortable;
  int threads = 1;
  std::vector<int> cpus = {};  // CPUs that the threads are pinned to, as in ThreadPool
  // The product whose inner loop `int8_gops` measures; a float type means Q8_0.
  GgmlType weights_type = GgmlType::kQ8_0;
};

// Runs the loops of PeakLoops on threads of its own, some tenths of a second each, and keeps the
// best of several runs. RESOURCE_EXHAUSTED without memory to read. REQUIRES: CpuHas(isa).
absl::StatusOr<CpuPeaks> MeasureCpuPeaks(const CpuPeakOptions& options);

// Memory far larger than the caches, to be read again and again. If a host has other guests, its
// speed changes from second to second. So a rate is compared with reads just before and after.
class MemoryReader {
 public:
  // Returns the errors of MeasureCpuPeaks, and REQUIRES as it does.
  static absl::StatusOr<std::unique_ptr<MemoryReader>> Create(const CpuPeakOptions& options);
  ~MemoryReader();

  // The speed of one read of all the memory, which takes some hundredths of a second.
  double GbPerSecond();

 private:
  struct Rep;
  explicit MemoryReader(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

// The name by which the CPU calls itself.
std::string CpuName();

// The scaling that a block of a quantised product takes beside the dots, by the weights' type.
enum PeakMix { kScaleOnly, kScaleAndMin, kTwoScales, kPeakMixes };

// The loops of an instruction set (peak_kernel.h). Each returns a value that depends on all its
// work.
struct PeakLoops {
  // Reads memory in order. REQUIRES: the memory holds floats, `bytes` is a multiple of 256.
  float (*read)(const uint8_t* data, size_t bytes);
  // The inner loop of a product with quantised weights, in registers only, `blocks` blocks deep.
  float (*integer_product[kPeakMixes])(int64_t blocks);
  double integer_ops_per_block;  // multiplications and additions of the dots
  // The inner loop of a product with float weights, in registers only, `columns` columns deep.
  float (*float_product)(int64_t columns);
  double float_ops_per_column;  // multiplications and additions
};

}  // namespace baton
