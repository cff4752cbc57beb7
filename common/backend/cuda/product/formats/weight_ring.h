// Quantised weights on their way through shared memory, some column tiles ahead of their use: for
// kernels that have too few registers, and too few warps, to have enough loads under way otherwise.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>

#include "common/backend/cuda/product/formats/weight_format.h"
#include "common/backend/cuda/weight/weight_layout.h"
#include "ptx.h"

namespace baton {

// Places for kStages column tiles of the rows of a block of kThreads threads: kRows for each warp. With
// g = lane / 4 and t = lane % 4, a lane copies and reads of its warp's rows g, g + 8, ... chunk t of the
// codes (group_format.h), or of Q8_0 chunk t of each half of the tile. What row l of the
// warp has beside codes lane l copies, for all lanes that share the row.
template <CudaElement kElement, int kThreads, int kRows, int kStages>
class WeightRing {
  static_assert(kRows % 8 == 0 && kRows <= 32, "a lane has up to four rows");
  static constexpr int kTurns = kRows / 8;
  static constexpr int kAllRows = kThreads / 32 * kRows;
  static constexpr int kTileBytes = HasCodeGroups(kElement) ? kGroupColumns / 2 : kGroupColumns;
  // Q8_0 has its second chunk where others have the plane `high`.
  static constexpr int kHighBytes = HasHalfScales(kElement) ? 8 : HasCodeGroups(kElement) ? 0 : 16;
  static constexpr int kPartBytes = 4 * PartBytes(kElement);
  // An entry of two bytes comes with its neighbour.
  static constexpr int kSuperBytes = SuperBytes(kElement) > 0 ? 4 : 0;
  // Where the planes begin in a stage: [turn][thread] codes, the same of `high`, [row] parts, [row] supers.
  static constexpr int kHighAt = kTurns * kThreads * 16;
  static constexpr int kPartsAt = kHighAt + kTurns * kThreads * kHighBytes;
  static constexpr int kSupersAt = kPartsAt + kAllRows * kPartBytes;

 public:
  static constexpr int kStageBytes = kSupersAt + kAllRows * kSuperBytes;
  static constexpr int kBytes = kStages * kStageBytes;

  // `first` is the block's first row, of `columns` columns, and `last` how many rows behind it the
  // matrix's last one is. Rows behind that are the last one. Tiles [.., end_tile) are taken in ascending
  // order. `shared` [kBytes].
  __device__ __forceinline__ WeightRing(const uint8_t* first, int last, int64_t row_bytes,
                                        int columns, int end_tile, uint8_t* shared)
      : planes_(PlanesOf(kElement, columns)),
        row_bytes_(static_cast<uint32_t>(row_bytes)),
        end_tile_(end_tile),
        shared_(shared) {
    const int row = RowOf(0);
    left_ = max(last - row, 0);
    codes_ = AsItIs(RowAt(first, row, last) + 16 * Lane4());
    // tests/planted_bugs: kernel_scales_of_another_row
    parts_ = AsItIs(RowAt(first, OwnRow(), last) + planes_.parts);
  }

  // Begins to copy a tile, if there is one. No thread may still read the oldest of the kStages tiles.
  __device__ __forceinline__ void Copy(int tile) {
    uint8_t* const stage = shared_ + copied_;
    copied_ = NextStage(copied_);
    if (tile >= end_tile_) return;
    const int thread = static_cast<int>(threadIdx.x);
    const int t = Lane4();
    // Not known to stay what it is: else the offsets of all rows would be kept in registers.
    const int left = AsItIs(left_);
    const uint8_t* const codes = AsItIs(codes_ + int64_t{kTileBytes} * tile);
    // Half as many bytes as of codes, in each tile and chunk.
    const uint32_t high_from = planes_.high - static_cast<uint32_t>(kTileBytes / 2 * tile + 8 * t);
#pragma unroll
    for (int turn = 0; turn < kTurns; ++turn) {
      const uint8_t* const from = RowAt(codes, turn * 8, left);
      CopyAsync16(stage + (turn * kThreads + thread) * 16, from);
      uint8_t* const high = stage + kHighAt + (turn * kThreads + thread) * kHighBytes;
      if constexpr (!HasCodeGroups(kElement)) {
        CopyAsync16(high, from + kTileBytes / 2);
      } else if constexpr (kHighBytes > 0) {
        CopyAsync<kHighBytes>(high, from + high_from, true);
      }
    }
    const bool wanted = kRows == 32 || thread % 32 < kRows;
    CopyAsyncIf<kPartBytes>(wanted, stage + kPartsAt + OwnRow() * kPartBytes,
                            parts_ + int64_t{kPartBytes} * tile);
    if constexpr (kSuperBytes > 0) {
      const uint32_t super = SuperAt(tile) / 4 * 4;
      CopyAsyncIf<kSuperBytes>(wanted, stage + kSupersAt + OwnRow() * kSuperBytes,
                               parts_ + (planes_.supers - planes_.parts) + super);
    }
  }

  // A copied tile. REQUIRES: all the block's copies of it have ended.
  struct Tile {
    const uint8_t* stage;
    uint32_t super;  // where an entry of `supers` begins in what was copied

    // What this lane has of row 8 * turn + lane / 4, as a row that has nothing else: one chunk of codes
    // and, with Q8_0, the second one as `high`.
    __device__ __forceinline__ QuantisedRow Row(int turn) const {
      const int chunk = turn * kThreads + static_cast<int>(threadIdx.x);
      const int row = RowOf(turn);
      return {stage + chunk * 16, stage + kHighAt + chunk * kHighBytes,
              stage + kPartsAt + row * kPartBytes, stage + kSupersAt + row * kSuperBytes + super};
    }
  };
  __device__ __forceinline__ Tile Take(int tile) {
    // tests/planted_bugs: kernel_super_scale_of_the_neighbour
    const Tile taken = {shared_ + taken_, SuperAt(tile) % 4};
    taken_ = NextStage(taken_);
    return taken;
  }

 private:
  static __device__ __forceinline__ int Lane4() { return static_cast<int>(threadIdx.x) % 4; }
  // The row of the block that this lane has in `turn`.
  static __device__ __forceinline__ int RowOf(int turn) {
    const int thread = static_cast<int>(threadIdx.x);
    return thread / 32 * kRows + turn * 8 + thread % 32 / 4;
  }
  // The row of the block of which this lane copies what is not codes.
  static __device__ __forceinline__ int OwnRow() {
    const int thread = static_cast<int>(threadIdx.x);
    return thread / 32 * kRows + thread % 32;
  }
  __device__ __forceinline__ const uint8_t* RowAt(const uint8_t* first, int row, int last) const {
    return first + uint64_t{static_cast<uint32_t>(min(row, last))} * row_bytes_;
  }
  static __device__ __forceinline__ int NextStage(int at) {
    return at == kBytes - kStageBytes ? 0 : at + kStageBytes;
  }
  // Where the tile's entry lies in the plane `supers`.
  static __device__ __forceinline__ uint32_t SuperAt(int tile) {
    return static_cast<uint32_t>(tile) / (256 / kGroupColumns) * SuperBytes(kElement);
  }

  RowPlanes planes_;
  uint32_t row_bytes_;
  const uint8_t* codes_;  // this lane's, of its first row
  int left_;              // rows from there to the last one
  const uint8_t* parts_;  // the plane `parts` of OwnRow
  int end_tile_;
  uint8_t* shared_;
  int copied_ = 0;  // where the next copy goes, in bytes
  int taken_ = 0;   // where the next tile is taken
};

}  // namespace baton
