// What one memory instruction of a warp costs on a device, by the addresses of its lanes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "tests/support/cuda_shim/fibers.h"

namespace baton::cuda_shim {

// An instruction that the lanes of a warp execute together.
struct WarpAccess {
  uintptr_t at[kLanes] = {};
  uint8_t bytes[kLanes] = {};  // 1, 2, 4, 8 or 16; 0: the lane takes no part
};

// What was done, against the fewest by which the same bytes could have been had.
struct Requests {
  uint64_t done = 0;
  uint64_t fewest = 0;

  uint64_t excess() const { return done - fewest; }
  Requests& operator+=(const Requests& other) {
    done += other.done;
    fewest += other.fewest;
    return *this;
  }
  bool operator==(const Requests&) const = default;
};

// --- Device memory, which is moved in sectors.

inline constexpr size_t kSectorBytes = 32;

struct TouchedSector {
  uintptr_t sector = 0;  // address / kSectorBytes
  uint32_t bytes = 0;    // a bit for each byte of the sector
};
// The sectors that the access touches, each once. Fills `sectors`, and returns how many there are.
size_t FindSectors(const WarpAccess& access, TouchedSector (&sectors)[2 * kLanes]);

// Sectors touched; fewest: as many as hold the distinct bytes, side by side.
Requests SectorRequests(std::span<const TouchedSector> sectors);

// --- Shared memory, which has 32 banks of 4 bytes.

// Wavefronts: lanes take turns at a bank that they want different words of. An access of 4 bytes or
// less is one phase of 32 lanes, of 8 bytes two phases of 16, of 16 bytes four phases of 8: so is
// each matrix of ldmatrix, whose 8 rows the lanes name. Lanes that read the same word do it at once.
// The fewest are as many as move the phase's distinct words, 32 at a time.
Requests Wavefronts(const WarpAccess& access);

}  // namespace baton::cuda_shim
