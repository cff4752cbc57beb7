#include "common/backend/cpu/peaks.h"

#include <cpuid.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/time/time.h"

#include "common/backend/cpu/kernels.h"
#include "common/backend/cpu/memory.h"
#include "common/backend/cpu/thread_pool.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr size_t kLeastReadBytes = size_t{1} << 29;
constexpr size_t kReadPerCache = 4;             // times the last cache
constexpr size_t kReadPiece = size_t{1} << 21;  // what a thread takes at a time
constexpr int kReadRuns = 8;
constexpr int kArithmeticRuns = 12;
constexpr absl::Duration kArithmeticRun = absl::Milliseconds(20);

double Seconds(absl::FunctionRef<void()> work) {
  const absl::Time start = SteadyNow();
  work();
  return absl::ToDoubleSeconds(SteadyNow() - start);
}

absl::StatusOr<double> ReadGbPerSecond(const PeakLoops& loops, ThreadPool& pool) {
  const size_t cache_bytes = static_cast<size_t>(std::max<long>(0, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  const size_t pieces = std::max(kLeastReadBytes, kReadPerCache * cache_bytes) / kReadPiece;
  CpuMemory cpu_memory;
  BATON_ASSIGN_OR_RETURN(const BackendBuffer memory, cpu_memory.Allocate(pieces * kReadPiece));
  const auto piece = [&](int index) { return memory.data() + index * kReadPiece; };
  // Ones: untouched pages would all be the same one.
  pool.Run(static_cast<int>(pieces),
           [&](int, int index) { std::memset(piece(index), 1, kReadPiece); });
  std::vector<float> sums(pieces);  // kept, so that the reads are
  double best = 0;
  for (int run = 0; run < kReadRuns; ++run) {
    const double seconds = Seconds([&] {
      pool.Run(static_cast<int>(pieces), [&](int, int index) {
        sums[static_cast<size_t>(index)] = loops.read(piece(index), kReadPiece);
      });
    });
    best = std::max(best, static_cast<double>(memory.size_bytes()) / seconds);
  }
  return best * 1e-9;
}

PeakMix MixOf(GgmlType type) {
  switch (type) {
    case GgmlType::kQ4_1:
    case GgmlType::kQ5_1:
    case GgmlType::kQ4_K:
    case GgmlType::kQ5_K:
      return kScaleAndMin;
    case GgmlType::kQ6_K:
      return kTwoScales;
    default:
      return kScaleOnly;
  }
}

// Giga operations per second of all threads: `loop` makes `ops` of them per unit of its argument.
double GigaOpsPerSecond(float (*loop)(int64_t), double ops, ThreadPool& pool) {
  std::vector<float> sums(static_cast<size_t>(pool.size()));
  const auto run = [&](int64_t count) {
    return Seconds([&] {
      pool.Run(pool.size(),
               [&](int, int chunk) { sums[static_cast<size_t>(chunk)] = loop(count); });
    });
  };
  int64_t count = 1024;
  while (run(count) < absl::ToDoubleSeconds(kArithmeticRun)) count *= 2;
  double best = 0;
  for (int i = 0; i < kArithmeticRuns; ++i) {
    best = std::max(best, ops * static_cast<double>(count) * pool.size() / run(count));
  }
  return best * 1e-9;
}

}  // namespace

absl::StatusOr<CpuPeaks> MeasureCpuPeaks(const CpuPeakOptions& options) {
  const PeakLoops& loops = KernelsFor(options.isa).peak;
  ThreadPool pool(options.threads, options.cpus);
  CpuPeaks peaks;
  BATON_ASSIGN_OR_RETURN(peaks.memory_read_gb_s, ReadGbPerSecond(loops, pool));
  peaks.int8_gops = GigaOpsPerSecond(loops.integer_product[MixOf(options.weights_type)],
                                     loops.integer_ops_per_block, pool);
  peaks.f32_gflops = GigaOpsPerSecond(loops.float_product, loops.float_ops_per_column, pool);
  return peaks;
}

std::string CpuName() {
  constexpr unsigned kFirstLeaf = 0x80000002;  // three leaves of 16 characters
  char name[49] = {};
  for (unsigned i = 0; i < 3; ++i) {
    unsigned registers[4] = {};
    __get_cpuid(kFirstLeaf + i, &registers[0], &registers[1], &registers[2], &registers[3]);
    std::memcpy(name + 16 * i, registers, sizeof(registers));
  }
  std::string text(name);
  absl::RemoveExtraAsciiWhitespace(&text);
  return text.empty() ? "unknown CPU" : text;
}

}  // namespace baton
