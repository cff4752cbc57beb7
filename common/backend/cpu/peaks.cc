#include "common/backend/cpu/peaks.h"

#include <cpuid.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/time/time.h"

#include "common/backend/cpu/kernels/kernels.h"
#include "common/backend/cpu/machine/memory.h"
#include "common/backend/cpu/machine/thread_pool.h"
#include "common/base/clock.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr size_t kLeastReadBytes = size_t{1} << 29;
constexpr size_t kReadPerCache = 4;             // sizes of the last cache to be read
constexpr size_t kReadPiece = size_t{1} << 21;  // bytes that a thread takes at a time
constexpr int kReadRuns = 8;
constexpr int kArithmeticRuns = 12;
constexpr absl::Duration kArithmeticRun = absl::Milliseconds(20);

double Seconds(absl::FunctionRef<void()> work) {
  const absl::Time start = SteadyNow();
  work();
  return absl::ToDoubleSeconds(SteadyNow() - start);
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

// The giga operations per second of all threads. `loop` makes `ops` of them per unit of its
// argument.
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

struct MemoryReader::Rep {
  const PeakLoops& loops;
  ThreadPool pool;
  CpuMemory cpu_memory = {};
  BackendBuffer memory = {};
  std::vector<float> sums = {};  // results, kept so that the compiler keeps the reads

  uint8_t* Piece(int index) const {
    return memory.data() + static_cast<size_t>(index) * kReadPiece;
  }
};

MemoryReader::MemoryReader(std::unique_ptr<Rep> rep) : rep_(std::move(rep)) {}
MemoryReader::~MemoryReader() = default;

absl::StatusOr<std::unique_ptr<MemoryReader>> MemoryReader::Create(const CpuPeakOptions& options) {
  auto rep = std::unique_ptr<Rep>(
      new Rep{KernelsFor(options.isa).peak, ThreadPool(options.threads, options.cpus)});
  const size_t cache_bytes = static_cast<size_t>(std::max<long>(0, sysconf(_SC_LEVEL3_CACHE_SIZE)));
  const size_t pieces = std::max(kLeastReadBytes, kReadPerCache * cache_bytes) / kReadPiece;
  BATON_ASSIGN_OR_RETURN(rep->memory, rep->cpu_memory.Allocate(pieces * kReadPiece));
  rep->sums.resize(pieces);
  // The memory is filled with ones: pages that were never written would all be one page of zeros.
  rep->pool.Run(static_cast<int>(pieces),
                [&](int, int index) { std::memset(rep->Piece(index), 1, kReadPiece); });
  return std::unique_ptr<MemoryReader>(new MemoryReader(std::move(rep)));
}

double MemoryReader::GbPerSecond() {
  const double seconds = Seconds([&] {
    rep_->pool.Run(static_cast<int>(rep_->sums.size()), [&](int, int index) {
      rep_->sums[static_cast<size_t>(index)] = rep_->loops.read(rep_->Piece(index), kReadPiece);
    });
  });
  return static_cast<double>(rep_->memory.size_bytes()) / seconds * 1e-9;
}

absl::StatusOr<CpuPeaks> MeasureCpuPeaks(const CpuPeakOptions& options) {
  CpuPeaks peaks;
  {
    BATON_ASSIGN_OR_RETURN(const auto reader, MemoryReader::Create(options));
    for (int run = 0; run < kReadRuns; ++run) {
      peaks.memory_read_gb_s = std::max(peaks.memory_read_gb_s, reader->GbPerSecond());
    }
  }
  const PeakLoops& loops = KernelsFor(options.isa).peak;
  ThreadPool pool(options.threads, options.cpus);
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
