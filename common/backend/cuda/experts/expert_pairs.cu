#include <algorithm>

#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/experts/expert_pairs.h"
#include "common/base/check.h"
#include "ptx.h"

namespace baton {

constexpr int kPairWarps = 4;

// The expert that this warp has; one from `experts` on has no work.
static __device__ int ExpertOfWarp() {
  return static_cast<int>(blockIdx.x * kPairWarps + threadIdx.x / unsigned{kWarpLanes});
}

static __device__ int WarpSumInt(int value) {
  for (int step = kWarpLanes / 2; step > 0; step /= 2) {
    value += __shfl_xor_sync(kAllLanes, value, step);
  }
  return value;
}

// The lanes whose pair, `first` + lane, is one of `expert`.
static __device__ uint32_t PairsOf(int expert, const int32_t* pair_experts, int pairs, int first,
                                   int lane) {
  const bool mine = first + lane < pairs && pair_experts[first + lane] == expert;
  return __ballot_sync(kAllLanes, mine ? 1 : 0);
}

static __global__ void __launch_bounds__(kPairWarps* kWarpLanes)
    CountPairsKernel(const int32_t* pair_experts, int pairs, int experts, int32_t* counts) {
  LetNextKernelStart();
  WaitForPreviousKernel();
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int expert = ExpertOfWarp();
  if (expert >= experts) return;
  int count = 0;
  for (int first = 0; first < pairs; first += kWarpLanes) {
    count += __popc(PairsOf(expert, pair_experts, pairs, first, lane));
  }
  if (lane == 0) counts[expert] = count;
}

static __global__ void __launch_bounds__(kPairWarps* kWarpLanes)
    GroupPairsKernel(const int32_t* pair_experts, int pairs, int experts, int tile_pairs,
                     ExpertPairs out) {
  LetNextKernelStart();
  WaitForPreviousKernel();
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int expert = ExpertOfWarp();
  if (expert >= experts) return;
  const auto tiles_of = [&](int count) { return (count + tile_pairs - 1) / tile_pairs; };
  int start = 0;
  int first_tile = 0;
  for (int other = lane; other < expert; other += kWarpLanes) {
    start += out.counts[other];
    first_tile += tiles_of(out.counts[other]);
  }
  start = WarpSumInt(start);
  first_tile = WarpSumInt(first_tile);
  const int count = out.counts[expert];

  int place = start;
  for (int first = 0; first < pairs; first += kWarpLanes) {
    const uint32_t lanes = PairsOf(expert, pair_experts, pairs, first, lane);
    if ((lanes >> lane & 1u) != 0) {
      out.order[place + __popc(lanes & ((1u << lane) - 1))] = first + lane;
    }
    place += __popc(lanes);
  }
  const int tiles = tiles_of(count);
  for (int i = lane; i < tiles; i += kWarpLanes) {
    const int done = i * tile_pairs;
    out.tiles[first_tile + i] = {expert, start + done, min(tile_pairs, count - done)};
  }
  if (expert == experts - 1 && lane == 0) *out.tile_count = first_tile + tiles;
}

int MaxExpertTiles(int pairs, int experts, int tile_pairs) {
  return std::min(pairs, pairs / tile_pairs + std::min(pairs, experts));
}

void LaunchGroupPairs(const int32_t* pair_experts, int pairs, int experts, int tile_pairs,
                      const ExpertPairs& out, cudaStream_t stream) {
  BATON_CHECK(pairs > 0 && out.max_tiles >= MaxExpertTiles(pairs, experts, tile_pairs),
              "room for all tiles");
  const LaunchOptions options = {.grid = BlocksFor(experts, kPairWarps),
                                 .block = kPairWarps * kWarpLanes,
                                 .stream = stream,
                                 .may_start_early = true};
  Launch(CountPairsKernel, options, pair_experts, pairs, experts, out.counts);
  Launch(GroupPairsKernel, options, pair_experts, pairs, experts, tile_pairs, out);
}

}  // namespace baton
