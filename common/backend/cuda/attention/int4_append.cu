#include "common/backend/cuda/attention/int4_append.h"
#include "common/backend/cuda/attention/rotate_lanes.h"
#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "ptx.h"

namespace baton {

constexpr int kInt4Warps = 4;

// The largest of the lanes' magnitudes, as MagnitudeBits.
static __device__ int32_t LargestMagnitude(const HeadLanes& head) {
  int32_t most = 0;
#pragma unroll
  for (const float x : head.x) most = max(most, MagnitudeBits(x));
  return WarpMax(most);
}

// Stores a rotated group; lane l has its element l.
static __device__ void StoreGroup(float x, int lane, uint8_t* codes, uint16_t* scale) {
  const float largest = WarpMax(x);
  const float least = -WarpMax(-x);
  const float extreme = largest > -least ? largest : least;
  float least_error = 0;
  int best_code = 0;
  uint16_t best_scale = 0;
#pragma unroll
  for (int i = 0; i < kInt4Candidates; ++i) {
    const uint16_t bits = Int4Scale(extreme, i);
    const float value = F16ToF32(bits);
    const int code = Int4Code(x, Int4Inverse(value));
    const float difference = x - static_cast<float>(code) * value;
    const float error = WarpSum(difference * difference);
    if (i > 0 && !(error < least_error)) continue;
    least_error = error;
    best_code = code;
    best_scale = bits;
  }
  const int high = __shfl_xor_sync(kAllLanes, best_code, kKvGroup / 2);
  if (lane < kKvGroup / 2) codes[lane] = KvInt4::Of(best_code, high).bits;
  if (lane == 0) *scale = best_scale;
}

// Stores a head that is not rotated yet.
static __device__ void StoreInt4Head(HeadLanes head, int head_dim, int lane, uint8_t* codes,
                                     uint16_t* scales) {
  constexpr int32_t kInfinity = 0x7f800000;
  const bool finite = LargestMagnitude(head) < kInfinity;
#pragma unroll
  for (float& x : head.x) {
    x = x > -kRotationLimit ? x : -kRotationLimit;
    x = x < kRotationLimit ? x : kRotationLimit;
  }
  RotateHead(head, head_dim, lane);
#pragma unroll
  for (int g = 0; g < kHeadRegisters; ++g) {
    if (g * kKvGroup >= head_dim) continue;
    if (finite) {
      StoreGroup(head.x[g], lane, codes + g * kKvGroup / 2, scales + g);
    } else {
      if (lane < kKvGroup / 2) codes[g * kKvGroup / 2 + lane] = 0;
      if (lane == 0) scales[g] = kNanInt4Scale;
    }
  }
}

// The grid is [rows, blocks of kInt4Warps heads]. A warp has one head, which passes through its
// part of the shared memory [kInt4Warps][head_dim].
template <bool kHalfSplit>
static __global__ void __launch_bounds__(kInt4Warps* kWarpLanes)
    RotateAndStoreInt4Kernel(RotateArguments arguments) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  LetNextKernelStart();
  WaitForPreviousKernel();
  const CudaPass& pass = arguments.pass;
  const KvLayerView& cache = arguments.cache;
  const int row = static_cast<int>(blockIdx.x);
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int warp = static_cast<int>(threadIdx.x) / kWarpLanes;
  const int index = static_cast<int>(blockIdx.y) * kInt4Warps + warp;
  if (index >= RotatedHeads(arguments)) return;
  const HeadOwner owner(arguments, index);
  const int head_dim = cache.head_dim;
  float* const at = owner.tensor.Row(row) + owner.head * head_dim;
  float* const shared = reinterpret_cast<float*>(shared_memory) + warp * head_dim;
  for (int i = lane; i < head_dim / 2; i += kWarpLanes) {
    const HeadPart<kHalfSplit, 1> part(i, head_dim, arguments.rope.dim);
    Floats<1> a = LoadFloats<1>(at + part.a);
    Floats<1> b = LoadFloats<1>(at + part.b);
    if (ChangePart(arguments, owner, row, part, a, b)) {
      StoreFloats(at + part.a, a);
      StoreFloats(at + part.b, b);
    }
    shared[part.a] = a.values[0];
    shared[part.b] = b.values[0];
  }
  __syncwarp();
  HeadLanes head = LoadHead(shared, head_dim, lane);
  if (owner.query) {
    RotateHead(head, head_dim, lane);
    return StoreHead(head, at, head_dim, lane);
  }
  const CachePlace place(pass, row, cache);
  if (place.token < 0) return;
  const KvPartShape part = cache.part();
  uint8_t* const codes = owner.value ? cache.ValueRow(place.block, place.token)
                                     : cache.KeyRow(place.block, place.token);
  uint8_t* const scales = owner.value ? cache.ValueScales(place.block, place.token)
                                      : cache.KeyScales(place.block, place.token);
  const auto number = static_cast<size_t>(owner.head);
  StoreInt4Head(head, head_dim, lane, codes + number * part.head_bytes(),
                reinterpret_cast<uint16_t*>(scales + number * part.head_scale_bytes()));
}

void LaunchRotateAndStoreInt4(const RotateArguments& arguments, cudaStream_t stream) {
  const int head_dim = arguments.cache.head_dim;
  BATON_CHECK(head_dim % kKvGroup == 0 && head_dim <= kMaxVectorHeadDim,
              "head_dim must be a multiple of kKvGroup up to kMaxVectorHeadDim", head_dim);
  Launch(
      arguments.rope.half_split ? RotateAndStoreInt4Kernel<true> : RotateAndStoreInt4Kernel<false>,
      {.grid = {static_cast<unsigned>(arguments.queries.rows),
                BlocksFor(RotatedHeads(arguments), kInt4Warps)},
       .block = kInt4Warps * kWarpLanes,
       .shared_bytes = static_cast<size_t>(kInt4Warps * head_dim) * sizeof(float),
       .stream = stream,
       .may_start_early = true},
      arguments);
}

}  // namespace baton
