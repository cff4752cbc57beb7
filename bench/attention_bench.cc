// Times CPU attention over the KV of a whole model, one layer after another, so that the caches
// help only as much as they do in a forward pass.
//
// A benchmark's arguments: query rows, tokens in the KV cache with them, number of such sequences.
#include <benchmark/benchmark.h>

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "common/backend/cpu/attention/attention.h"
#include "common/backend/cpu/kernels/kernels.h"
#include "common/backend/cpu/machine/memory.h"
#include "common/base/float_types.h"
#include "common/base/kv_type_name.h"

namespace baton {
namespace {

constexpr int kLayers = 30;
constexpr int kHeads = 9;
constexpr int kKvHeads = 3;
constexpr int kHeadDim = 64;
constexpr int kBlockSize = 32;

// Instruction set, threads and KV type come from the environment, so that measurements can be
// repeated with others.
CpuIsa Isa() {
  const char* name = std::getenv("BATON_BENCH_ISA");
  return *ParseCpuIsa(name == nullptr ? "auto" : name);
}
int Threads() {
  const char* threads = std::getenv("BATON_BENCH_THREADS");
  return threads == nullptr ? 2 : std::atoi(threads);
}

KvType Type() {
  const char* name = std::getenv("BATON_BENCH_KV");
  return *KvTypeFromName(name == nullptr ? "f16" : name);
}

// Fills a part of a block with float16 numbers, or with codes and scales.
void FillPart(const KvPartShape& part, const std::vector<uint16_t>& pattern, size_t& next,
              uint8_t* to) {
  const size_t rows = static_cast<size_t>(part.block_size) * part.row_bytes();
  for (size_t i = 0; i + 1 < rows; i += 2, ++next) {
    std::memcpy(to + i, &pattern[next % pattern.size()], sizeof(uint16_t));
  }
  const float scale = 0.01f;
  const uint16_t half = F32ToF16(scale);
  const bool halves = part.dtype == KvType::kInt4;
  const size_t step = halves ? sizeof(half) : sizeof(scale);
  for (size_t i = rows; i < part.bytes(); i += step) {
    std::memcpy(to + i, halves ? static_cast<const void*>(&half) : &scale, step);
  }
}

void BM_Attention(benchmark::State& state) {
  const int rows = static_cast<int>(state.range(0));
  const int tokens = static_cast<int>(state.range(1));
  const int sequences = static_cast<int>(state.range(2));
  const int blocks = (tokens + kBlockSize - 1) / kBlockSize;
  const KvPartShape part = {kBlockSize, kKvHeads, kHeadDim, Type()};
  const size_t half = part.bytes();
  std::mt19937 random(1);
  const size_t parts = static_cast<size_t>(blocks * sequences) * kLayers * 2;  // K and V
  CpuMemory cpu_memory;
  const BackendBuffer memory = *cpu_memory.Allocate(parts * half);
  std::vector<uint16_t> pattern(4099);  // a prime number, so that rows differ
  for (uint16_t& x : pattern) {
    x = F32ToF16(std::uniform_real_distribution<float>(-1, 1)(random));
  }
  size_t next = 0;
  for (size_t i = 0; i < parts; ++i) FillPart(part, pattern, next, memory.data() + i * half);
  std::vector<float> queries(static_cast<size_t>(rows * sequences * kHeads * kHeadDim));
  for (size_t i = 0; i < queries.size(); ++i) {
    queries[i] = F16ToF32(pattern[i * 7 % pattern.size()]);
  }
  std::vector<float> out(queries.size());
  std::vector<int32_t> table(static_cast<size_t>(blocks * sequences));
  std::iota(table.begin(), table.end(), 0);
  std::vector<BatchSequence> batch;
  for (int i = 0; i < sequences; ++i) {
    batch.push_back({i * rows, rows, tokens - rows, table.data() + i * blocks});
  }

  ThreadPool pool(Threads(), {});
  AttentionScratch scratch;
  const AttentionRule rule = {.scale = 1 / std::sqrt(static_cast<float>(kHeadDim))};
  const CpuKernels& kernels = KernelsFor(Isa());
  for (auto _ : state) {
    for (size_t layer = 0; layer < kLayers; ++layer) {
      const KvLayerView view = {.blocks = memory.data(),
                                .block_bytes = kLayers * 2 * half,
                                .keys_offset = layer * 2 * half,
                                .values_offset = layer * 2 * half + half,
                                .block_size = kBlockSize,
                                .kv_heads = kKvHeads,
                                .head_dim = kHeadDim,
                                .dtype = part.dtype};
      AttendRows(kernels, pool, batch, rule, {queries.data(), rows * sequences, kHeads * kHeadDim},
                 view, {out.data(), rows * sequences, kHeads * kHeadDim}, scratch);
    }
  }
  // Pairs of a query and a key that it sees: each pair is a multiplication and an addition in each
  // of the two products.
  double pairs = 0;
  for (int row = 0; row < rows; ++row) pairs += tokens - rows + row + 1;
  pairs *= sequences;
  const double passes = static_cast<double>(state.iterations());
  state.counters["FLOP/s"] = benchmark::Counter(passes * kLayers * pairs * kHeads * kHeadDim * 4,
                                                benchmark::Counter::kIsRate);
  state.counters["KV B/s"] =
      benchmark::Counter(passes * sequences * tokens * kLayers * 2 *
                             static_cast<double>(part.row_bytes() + part.scale_bytes()),
                         benchmark::Counter::kIsRate);
}

BENCHMARK(BM_Attention)
    ->Args({1, 1, 1})
    ->Args({1, 100, 1})
    ->Args({1, 500, 1})
    ->Args({1, 4096, 1})
    ->Args({1, 500, 8})
    ->Args({16, 500, 1})
    ->Args({64, 4096, 1})
    ->Args({512, 512, 1})
    ->Args({512, 2048, 1})
    ->Args({2048, 2048, 1})
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace baton

BENCHMARK_MAIN();
