#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/experts/expert_choice.h"
#include "common/backend/exact_math.h"
#include "common/base/check.h"
#include "ptx.h"

namespace baton {

constexpr int kChoiceWarps = 4;
constexpr int kLaneExperts = kMaxExperts / kWarpLanes;

// NaN as -infinity, and -0 as +0.
static __device__ float RankedLogit(float logit) {
  return logit == logit ? logit + 0.0f : -INFINITY;
}

// Greater for what is chosen first; never 0.
static __device__ uint64_t ChoiceKey(float logit, int expert) {
  const uint32_t bits = __float_as_uint(RankedLogit(logit));
  const uint32_t ascending = (bits & 0x80000000u) != 0 ? ~bits : bits | 0x80000000u;
  return uint64_t{ascending} << 32 | (0xffffffffu - static_cast<uint32_t>(expert));
}

static __device__ uint64_t WarpMaxKey(uint64_t key) {
  for (int step = kWarpLanes / 2; step > 0; step /= 2) {
    const auto other = static_cast<uint64_t>(
        __shfl_xor_sync(kAllLanes, static_cast<unsigned long long>(key), step));
    key = other > key ? other : key;
  }
  return key;
}

// A warp has one row. Lane l has the experts that are l modulo 32; the key of a chosen one becomes
// 0. The chosen logits pass through the warp's part of the shared memory [kChoiceWarps][used].
static __global__ void __launch_bounds__(kChoiceWarps* kWarpLanes)
    ChooseExpertsKernel(Tensor router, int used, int32_t* experts, float* shares) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  LetNextKernelStart();
  WaitForPreviousKernel();
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const int row = static_cast<int>(blockIdx.x) * kChoiceWarps + warp;
  if (row >= router.rows) return;
  const float* const logits = router.Row(row);
  uint64_t keys[kLaneExperts];
#pragma unroll
  for (int i = 0; i < kLaneExperts; ++i) {
    const int expert = i * kWarpLanes + lane;
    keys[i] = expert < router.columns ? ChoiceKey(logits[expert], expert) : 0;
  }
  float greatest = 0;
  for (int choice = 0; choice < used; ++choice) {
    uint64_t best = 0;
#pragma unroll
    for (int i = 0; i < kLaneExperts; ++i) best = keys[i] > best ? keys[i] : best;
    best = WarpMaxKey(best);
    if (choice == 0) {
      greatest = RankedLogit(logits[0xffffffffu - static_cast<uint32_t>(best)]);
    }
#pragma unroll
    for (int i = 0; i < kLaneExperts; ++i) keys[i] = keys[i] == best ? 0 : keys[i];
  }

  float* const chosen = reinterpret_cast<float*>(shared_memory) + warp * used;
  const size_t first = static_cast<size_t>(row) * static_cast<size_t>(used);
  int before = 0;  // chosen experts below those at hand
#pragma unroll
  for (int i = 0; i < kLaneExperts; ++i) {
    const int expert = i * kWarpLanes + lane;
    const bool mine = expert < router.columns && keys[i] == 0;
    const uint32_t lanes = __ballot_sync(kAllLanes, mine ? 1 : 0);
    if (mine) {
      const int place = before + __popc(lanes & ((1u << lane) - 1));
      experts[first + static_cast<size_t>(place)] = expert;
      chosen[place] = logits[expert];
    }
    before += __popc(lanes);
  }
  // tests/planted_bugs: kernel_expert_logits_before_the_lanes
  __syncwarp();
  float sum = 0;
  for (int i = 0; i < used; ++i) sum += ExpF(chosen[i] - greatest);
  for (int i = lane; i < used; i += kWarpLanes) {
    shares[first + static_cast<size_t>(i)] = ExpF(chosen[i] - greatest) / sum;
  }
}

void LaunchChooseExperts(Tensor router, int used, int32_t* experts, float* shares,
                         cudaStream_t stream) {
  BATON_CHECK(router.columns <= kMaxExperts, "at most 512 experts on a CUDA device");
  BATON_CHECK(used >= 1 && used <= router.columns, "as many experts as are chosen");
  if (router.rows == 0) return;
  Launch(ChooseExpertsKernel,
         {.grid = BlocksFor(router.rows, kChoiceWarps),
          .block = kChoiceWarps * kWarpLanes,
          .shared_bytes = static_cast<size_t>(kChoiceWarps * used) * sizeof(float),
          .stream = stream,
          .may_start_early = true},
         router, used, experts, shares);
}

}  // namespace baton
