#include "common/backend/cuda/attention/attention.h"
#include "common/backend/cuda/attention/quantise_append.h"
#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "ptx.h"

namespace baton {

constexpr int kQuantiseWarps = 4;

// The grid is [rows, blocks of kQuantiseWarps heads]. A warp has one head, a lane every 32nd
// HeadPart of it.
template <class Code, bool kHalfSplit, int kCount>
static __global__ void __launch_bounds__(kQuantiseWarps* kWarpLanes)
    RotateAndQuantiseKernel(RotateArguments arguments) {
  constexpr int kMostParts = kMaxVectorHeadDim / (2 * kCount) / kWarpLanes;  // HeadParts of a lane
  LetNextKernelStart();
  WaitForPreviousKernel();
  const CudaPass& pass = arguments.pass;
  const KvLayerView& cache = arguments.cache;
  const int row = static_cast<int>(blockIdx.x);
  const int lane = static_cast<int>(threadIdx.x) % kWarpLanes;
  const int index =
      static_cast<int>(blockIdx.y) * kQuantiseWarps + static_cast<int>(threadIdx.x) / kWarpLanes;
  if (index >= RotatedHeads(arguments)) return;
  const HeadOwner owner(arguments, index);
  const int head_dim = cache.head_dim;
  const int parts = head_dim / (2 * kCount);
  float* const at = owner.tensor.Row(row) + owner.head * head_dim;

  Floats<kCount> a[kMostParts];
  Floats<kCount> b[kMostParts];
  int32_t most = 0;
#pragma unroll
  for (int p = 0; p < kMostParts; ++p) {
    if (p * kWarpLanes + lane >= parts) continue;
    const HeadPart<kHalfSplit, kCount> part(p * kWarpLanes + lane, head_dim, arguments.rope.dim);
    a[p] = LoadFloats<kCount>(at + part.a);
    b[p] = LoadFloats<kCount>(at + part.b);
    if (ChangePart(arguments, owner, row, part, a[p], b[p])) {
      StoreFloats(at + part.a, a[p]);
      StoreFloats(at + part.b, b[p]);
    }
#pragma unroll
    for (int i = 0; i < kCount; ++i) {
      most = max(most, max(MagnitudeBits(a[p].values[i]), MagnitudeBits(b[p].values[i])));
    }
  }
  if (owner.query) return;

  const float scale = KvScale<Code>(WarpMax(most));
  const float divisor = KvDivisor(scale);
  const CachePlace place(pass, row, cache);
  if (place.token < 0) return;
  uint8_t* const codes = (owner.value ? cache.ValueRow(place.block, place.token)
                                      : cache.KeyRow(place.block, place.token)) +
                         owner.head * head_dim;
#pragma unroll
  for (int p = 0; p < kMostParts; ++p) {
    if (p * kWarpLanes + lane >= parts) continue;
    const HeadPart<kHalfSplit, kCount> part(p * kWarpLanes + lane, head_dim, arguments.rope.dim);
    using Access = typename OneAccess<kCount>::Type;
    *reinterpret_cast<Access*>(codes + part.a) = CodesOf<Code>(a[p], divisor);
    *reinterpret_cast<Access*>(codes + part.b) = CodesOf<Code>(b[p], divisor);
  }
  if (lane == 0) {
    reinterpret_cast<float*>(owner.value ? cache.ValueScales(place.block, place.token)
                                         : cache.KeyScales(place.block, place.token))[owner.head] =
        scale;
  }
}

template <class Code, bool kHalfSplit>
static void LaunchFor(const RotateArguments& arguments, cudaStream_t stream) {
  Launch(RotatesVectors(arguments) ? RotateAndQuantiseKernel<Code, kHalfSplit, kRotateVector>
                                   : RotateAndQuantiseKernel<Code, kHalfSplit, 1>,
         {.grid = {static_cast<unsigned>(arguments.queries.rows),
                   BlocksFor(RotatedHeads(arguments), kQuantiseWarps)},
          .block = kQuantiseWarps * kWarpLanes,
          .stream = stream,
          .may_start_early = true},
         arguments);
}

void LaunchRotateAndQuantise(const RotateArguments& arguments, cudaStream_t stream) {
  BATON_CHECK(arguments.cache.head_dim <= kMaxVectorHeadDim,
              "head_dim must be at most kMaxVectorHeadDim", arguments.cache.head_dim);
  WithElement(arguments.cache.dtype, [&](auto code) {
    using Code = decltype(code);
    if constexpr (kIsKvCode<Code>) {
      if (arguments.rope.half_split) {
        LaunchFor<Code, true>(arguments, stream);
      } else {
        LaunchFor<Code, false>(arguments, stream);
      }
    }
  });
}

}  // namespace baton
