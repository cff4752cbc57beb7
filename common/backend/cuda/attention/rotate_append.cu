#include "common/backend/cuda/attention/int4_append.h"
#include "common/backend/cuda/attention/quantise_append.h"
#include "common/backend/cuda/attention/rotate_append.h"
#include "common/backend/cuda/attention/rotate_head.h"
#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "ptx.h"

namespace baton {

constexpr int kRotateThreads = 128;

// The grid is [rows, blocks of heads]. A thread has one HeadPart, 2 * kCount elements of one head;
// heads are those of Q, then of K, then of V.
template <class Element, bool kHalfSplit, int kCount>
static __global__ void __launch_bounds__(kRotateThreads)
    RotateAndAppendKernel(RotateArguments arguments) {
  LetNextKernelStart();
  WaitForPreviousKernel();
  const CudaPass& pass = arguments.pass;
  const KvLayerView& cache = arguments.cache;
  const int row = static_cast<int>(blockIdx.x);
  const int head_dim = cache.head_dim;
  const int parts = head_dim / (2 * kCount);
  const int item = static_cast<int>(blockIdx.y * kRotateThreads + threadIdx.x);
  const int index = item / parts;
  if (index >= RotatedHeads(arguments)) return;
  const HeadPart<kHalfSplit, kCount> part(item % parts, head_dim, arguments.rope.dim);
  const HeadOwner owner(arguments, index);
  if (owner.query && !part.rotated && pass.query_scales == nullptr) return;

  float* const at = owner.tensor.Row(row) + owner.head * head_dim;
  Floats<kCount> a = LoadFloats<kCount>(at + part.a);
  Floats<kCount> b = LoadFloats<kCount>(at + part.b);
  if (ChangePart(arguments, owner, row, part, a, b)) {
    StoreFloats(at + part.a, a);
    StoreFloats(at + part.b, b);
  }
  if (owner.query) return;
  const CachePlace place(pass, row, cache);
  if (place.token < 0) return;
  Element* const stored =
      reinterpret_cast<Element*>(owner.value ? cache.ValueRow(place.block, place.token)
                                             : cache.KeyRow(place.block, place.token)) +
      owner.head * head_dim;
  StoreFloats(stored + part.a, a);
  StoreFloats(stored + part.b, b);
}

template <class Element, bool kHalfSplit>
static void RotateAndAppendBy(const RotateArguments& arguments, cudaStream_t stream) {
  const bool vectors = RotatesVectors(arguments);
  const int count = vectors ? kRotateVector : 1;
  const int items = RotatedHeads(arguments) * arguments.cache.head_dim / (2 * count);
  Launch(vectors ? RotateAndAppendKernel<Element, kHalfSplit, kRotateVector>
                 : RotateAndAppendKernel<Element, kHalfSplit, 1>,
         {.grid = {static_cast<unsigned>(arguments.queries.rows), BlocksFor(items, kRotateThreads)},
          .block = kRotateThreads,
          .stream = stream,
          .may_start_early = true},
         arguments);
}

void LaunchRotateAndAppend(const CudaPass& pass, const CudaRope& rope, Tensor queries, Tensor keys,
                           Tensor values, const KvLayerView& cache, cudaStream_t stream) {
  if (queries.rows == 0) return;
  const RotateArguments arguments{pass, rope, queries, keys, values, cache};
  if (IsRotated(cache.dtype)) return LaunchRotateAndStoreInt4(arguments, stream);
  if (IsQuantised(cache.dtype)) return LaunchRotateAndQuantise(arguments, stream);
  WithElement(cache.dtype, [&](auto element) {
    using Element = decltype(element);
    if constexpr (kIsFloat<Element>) {
      if (rope.half_split) {
        RotateAndAppendBy<Element, true>(arguments, stream);
      } else {
        RotateAndAppendBy<Element, false>(arguments, stream);
      }
    }
  });
}

}  // namespace baton
