#include "common/backend/cuda/attention/rotate_heads.h"
#include "common/backend/cuda/attention/rotate_lanes.h"
#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "ptx.h"

namespace baton {

constexpr int kRotateWarps = 4;

// The grid is [rows, blocks of kRotateWarps heads]. A warp has one head.
static __global__ void __launch_bounds__(kRotateWarps* kWarpLanes)
    RotateHeadsKernel(Tensor tensor, int head_dim) {
  LetNextKernelStart();
  WaitForPreviousKernel();
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int index =
      static_cast<int>(blockIdx.y) * kRotateWarps + static_cast<int>(threadIdx.x) / kWarpLanes;
  if (index >= tensor.columns / head_dim) return;
  float* const at = tensor.Row(static_cast<int>(blockIdx.x)) + index * head_dim;
  HeadLanes head = LoadHead(at, head_dim, lane);
  RotateHead(head, head_dim, lane);
  StoreHead(head, at, head_dim, lane);
}

void LaunchRotateHeads(Tensor tensor, int head_dim, cudaStream_t stream) {
  BATON_CHECK(head_dim % kKvGroup == 0 && head_dim <= kMaxVectorHeadDim,
              "head_dim must be a multiple of kKvGroup up to kMaxVectorHeadDim", head_dim);
  if (tensor.rows == 0) return;
  Launch(RotateHeadsKernel,
         {.grid = {static_cast<unsigned>(tensor.rows),
                   BlocksFor(tensor.columns / head_dim, kRotateWarps)},
          .block = kRotateWarps * kWarpLanes,
          .stream = stream,
          .may_start_early = true},
         tensor, head_dim);
}

}  // namespace baton
