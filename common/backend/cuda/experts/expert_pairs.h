// The pairs of rows and chosen experts, grouped by expert on the device: the host never learns who
// chose whom, so that a recorded pass may choose anew. Pair `row * used + i` is choice i of a row.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

namespace baton {

// Some pairs of one expert, which are multiplied together: `count` of ExpertPairs::order from
// `first` on.
struct ExpertTile {
  int32_t expert;
  int32_t first;
  int32_t count;
};

// Pairs in the order of their computation, in device memory; borrowed.
struct ExpertPairs {
  int32_t* counts = nullptr;      // [experts]: pairs of each expert
  int32_t* order = nullptr;       // [pairs]: pairs by their experts, ascending in each
  ExpertTile* tiles = nullptr;    // [max_tiles]
  int32_t* tile_count = nullptr;  // [1]
  int max_tiles = 0;              // MaxExpertTiles
};

// The most tiles that so many pairs may make: experts end in tiles that are not full.
int MaxExpertTiles(int pairs, int experts, int tile_pairs);

// Groups the pairs by `pair_experts` [pairs], and cuts each group into tiles of `tile_pairs`.
// REQUIRES: each expert is below `experts`; pairs > 0.
void LaunchGroupPairs(const int32_t* pair_experts, int pairs, int experts, int tile_pairs,
                      const ExpertPairs& out, cudaStream_t stream);

}  // namespace baton
