// Quantised weights on their way through shared memory, some column tiles ahead of their use: for
// kernels that have too few registers, and too few warps, to have enough loads under way otherwise.
// Each thread copies what it alone will read, so that no barrier is needed.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/product/weight_format.h"
#include "common/backend/cuda/weight/weight_layout.h"
#include "ptx.h"

namespace baton {

// What the threads of a block have of two rows each, kStages column tiles at a time: a chunk of codes
// in groups (group_format.h), or of Q8_0 one in each half of the tile; and what the tile has beside
// codes.
template <CudaElement kElement, int kThreads, int kStages>
class WeightRing {
  static constexpr int kTileBytes = HasCodeGroups(kElement) ? kGroupColumns / 2 : kGroupColumns;
  // Q8_0 has its second chunk where others have the plane `high`.
  static constexpr int kHighBytes = HasHalfScales(kElement) ? 8 : HasCodeGroups(kElement) ? 0 : 16;
  static constexpr int kPartBytes = 4 * PartBytes(kElement);
  // An entry of two bytes comes with its neighbour.
  static constexpr int kSuperBytes = SuperBytes(kElement) > 0 ? 4 : 0;
  static constexpr int kRowBytes = kThreads * (16 + kHighBytes + kPartBytes + kSuperBytes);

 public:
  static constexpr int kStageBytes = 2 * kRowBytes;
  static constexpr int kBytes = kStages * kStageBytes;

  // `shared` [kBytes]. Tiles [.., end_tile) of the rows are taken in ascending order. `thread` is the
  // thread's index in the block.
  __device__ __forceinline__ WeightRing(const QuantisedRow (&rows)[2], int end_tile,
                                        uint8_t* shared, int thread)
      : end_tile_(end_tile), shared_(shared), thread_(thread) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      rows_[row] = rows[row];
      rows_[row].codes = AsItIs(rows[row].codes + 16 * (thread % 4));
      // A min takes the registers that another kept address would.
      if constexpr (!HasMin(kElement)) rows_[row].parts = AsItIs(rows[row].parts);
    }
  }

  // Begins to copy the chunks of a tile, if there is one. Of the kStages tiles before, the first must
  // have been taken and read.
  __device__ __forceinline__ void Copy(int tile) {
    const uint8_t* const stage = shared_ + copied_;
    copied_ = NextStage(copied_);
    if (tile >= end_tile_) return;
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      const QuantisedRow& from = rows_[row];
      const QuantisedRow to = PlacesIn(stage, row);
      const uint8_t* const codes = from.codes + kTileBytes * static_cast<int64_t>(tile);
      CopyAsync16(Writable(to.codes), codes);
      if constexpr (!HasCodeGroups(kElement)) {
        CopyAsync16(Writable(to.high), codes + kTileBytes / 2);
      } else if constexpr (kHighBytes > 0) {
        const int chunk = tile * 4 + thread_ % 4;
        CopyAsync<kHighBytes>(Writable(to.high),
                              from.high + kHighBytes * static_cast<int64_t>(chunk), true);
      }
      CopyAsync<kPartBytes>(Writable(to.parts),
                            from.parts + kPartBytes * static_cast<int64_t>(tile), true);
      if constexpr (kSuperBytes > 0) {
        CopyAsync<kSuperBytes>(Writable(to.supers), from.supers + SuperAt(tile) / 4 * 4, true);
      }
    }
  }

  // The copied chunks of the next tile, as rows that have nothing else. With Q8_0, `high` is the second
  // chunk, and `parts` begins with the first one's. REQUIRES: the copy has ended.
  __device__ __forceinline__ void Take(int tile, QuantisedRow (&chunks)[2]) {
#pragma unroll
    for (int row = 0; row < 2; ++row) {
      chunks[row] = PlacesIn(shared_ + taken_, row);
      chunks[row].supers += SuperAt(tile) % 4;
      if constexpr (!HasCodeGroups(kElement)) {
        chunks[row].parts += thread_ % 4 / 2 * PartBytes(kElement);
      }
    }
    taken_ = NextStage(taken_);
  }

 private:
  static __device__ __forceinline__ int NextStage(int at) {
    return at == kBytes - kStageBytes ? 0 : at + kStageBytes;
  }
  // Where the thread has what is of a row in a stage.
  __device__ __forceinline__ QuantisedRow PlacesIn(const uint8_t* stage, int row) const {
    const uint8_t* const codes = stage + row * kRowBytes;
    const uint8_t* const high = codes + kThreads * 16;
    const uint8_t* const parts = high + kThreads * kHighBytes;
    const uint8_t* const supers = parts + kThreads * kPartBytes;
    return {codes + thread_ * 16, high + thread_ * kHighBytes, parts + thread_ * kPartBytes,
            supers + thread_ * kSuperBytes};
  }
  static __device__ __forceinline__ uint8_t* Writable(const uint8_t* shared) {
    return const_cast<uint8_t*>(shared);
  }
  // Where the tile's entry lies in the plane `supers`.
  static __device__ __forceinline__ int SuperAt(int tile) {
    return tile * kGroupColumns / 256 * SuperBytes(kElement);
  }

  QuantisedRow rows_[2];
  int end_tile_;
  uint8_t* shared_;
  int thread_;
  int copied_ = 0;  // where the next copy goes, in bytes
  int taken_ = 0;   // where the next tile is taken
};

}  // namespace baton
