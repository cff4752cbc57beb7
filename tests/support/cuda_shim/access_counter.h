// Counts what the memory accesses of kernels cost on a device: sectors of device memory, wavefronts
// of shared memory, bytes that are moved more than once.
//
// What one access is: what one instruction of a device is. Each load or store of a scalar or of a
// vector type in a kernel's source is one access of its width. g++ would take a copy of a vector
// for accesses of its elements; so kernels are compiled without scalar replacement (CMakeLists.txt),
// and vectors are stored whole (vector_types.h). Scalars are never merged, even if nvcc would
// do so. What ptx.h does is counted here as the instruction that it stands for. Left out are
// atomics and prefetches, and what lies neither in shared memory nor in what cudaMalloc gave.
//
// Which accesses of a warp's lanes are one instruction's: those behind which the same address of
// code is, and of which each lane has made as many since the warp last met (at a collective or a
// barrier). Where lanes go through a loop differently often, the last turns are grouped as a device
// would not: a lane that leaves out one in the middle is ahead of the others from there on.
//
// Not seen: caches, and what a compiler for devices moves, drops or splits.
//
// Thread rule: as RunKernel. Without a counter a hook costs the test of one pointer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>
#include <vector>

#include "tests/support/cuda_shim/fibers.h"
#include "tests/support/cuda_shim/warp_access.h"

namespace baton::cuda_shim {

enum class MemorySpace : uint8_t { kDevice, kShared };
enum class AccessKind : uint8_t { kRead, kWrite };

// All executions of an instruction in a launch.
struct InstructionCounts {
  uint32_t code = 0;  // program_lines.h
  MemorySpace space = MemorySpace::kDevice;
  AccessKind kind = AccessKind::kRead;
  int widest = 0;           // bytes of a lane
  uint64_t executions = 0;  // by warps
  Requests requests = {};   // sectors or, in shared memory, wavefronts
};

// The bytes of device memory that a launch reads, or writes.
struct Traffic {
  uint64_t bytes = 0;        // moved by all executions; what lanes of a warp share counts once
  uint64_t block_bytes = 0;  // the distinct bytes of each block, added up
  uint64_t distinct = 0;     // bytes of the whole launch, each once
  uint32_t most_blocks = 0;  // the most blocks that touch one sector
};

struct KernelCounts {
  const void* kernel = nullptr;
  dim3 grid;
  dim3 block;
  std::vector<InstructionCounts> instructions = {};
  Traffic read = {};
  Traffic written = {};
  // --- Operations of whole warps.
  uint64_t multiplications = 0;  // mma
  uint64_t matrix_loads = 0;     // ldmatrix
  // --- Others.
  uint64_t barriers = 0;      // barriers of whole blocks
  uint64_t exponentials = 0;  // calls of Exp2Approximate by threads

  // Returns the sum over all instructions of the kind.
  Requests All(MemorySpace space, AccessKind kind) const;
};

// Counts all launches that run while it lives.
class AccessCounts {
 public:
  // REQUIRES: there is no other.
  AccessCounts();
  ~AccessCounts();
  AccessCounts(const AccessCounts&) = delete;
  AccessCounts& operator=(const AccessCounts&) = delete;

  // Returns the counts of the launches that have ended, in their order.
  const std::vector<KernelCounts>& kernels() const { return kernels_; }

  // --- For the shim.

  // The one that counts, or null.
  static AccessCounts* Active() { return active_; }

  void LaunchBegins(const KernelLaunch& launch);
  void LaunchEnds();
  void BlockBegins() { ++block_; }
  void BlockEnds() { EndAll(); }
  void BarrierPassed();
  // All lanes of the running thread's warp have come.
  void WarpMeets();
  // An access of the running thread, by the instruction behind which `code` is. With 0 bytes the
  // thread's lane takes no part in it.
  void Access(AccessKind kind, const void* data, size_t bytes, const void* code);
  // The counts of the launch that runs.
  KernelCounts& running() { return kernels_.back(); }

 private:
  // An instruction, and its executions since the warp last met.
  struct Pending {
    size_t instruction = 0;  // index in KernelCounts
    std::vector<WarpAccess> executions;
    size_t count = 0;  // number of executions
    size_t next[kLanes] = {};
  };
  struct Warp {
    std::unordered_map<uint64_t, Pending> pending;  // by KeyOf
    std::vector<Pending*> in_use;
  };
  // Which bytes of a sector were touched.
  struct ByteUse {
    uint32_t ever = 0;      // bits, by the launch
    uint32_t by_block = 0;  // bits, by the block of that number
    uint32_t block = 0;
    uint32_t blocks = 0;  // blocks that have touched any
  };
  struct SectorUse {
    ByteUse read;
    ByteUse written;
  };

  static uint64_t KeyOf(MemorySpace space, AccessKind kind, uint32_t code);
  Pending& PendingOf(Warp& warp, MemorySpace space, AccessKind kind, uint32_t code);
  void EndAll();
  void End(Warp& warp);
  void Count(InstructionCounts& instruction, const WarpAccess& access);
  void AddTraffic(AccessKind kind, const TouchedSector& touched);
  SectorUse& UseOf(uintptr_t sector);

  static inline AccessCounts* active_ = nullptr;
  std::vector<KernelCounts> kernels_;
  // The fields below belong to the launch that runs.
  uintptr_t shared_begin_ = 0;
  size_t shared_bytes_ = 0;
  uintptr_t device_begin_ = 0;
  size_t device_bytes_ = 0;
  uint32_t block_ = 0;  // its number, from 1 on
  std::vector<Warp> warps_;
  std::unordered_map<uint64_t, size_t> instructions_;                    // by KeyOf
  std::unordered_map<uintptr_t, std::unique_ptr<SectorUse[]>> sectors_;  // by page
};

}  // namespace baton::cuda_shim
