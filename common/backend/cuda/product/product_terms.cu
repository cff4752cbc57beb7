#include <cuda_bf16.h>

#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/product/norm_row.h"
#include "common/backend/cuda/product/product_terms.h"
#include "common/backend/cuda/product/quads.h"
#include "common/base/check.h"
#include "ptx.h"

namespace baton {

constexpr int kTermThreads = 256;
constexpr int kTermQuads = 2;

struct TermArgs {
  VectorInput input;
  int terms;
  int stride;
  __nv_bfloat16* out;  // [terms, rows, stride]
};

// The part of x that rounding to BF16 loses; 0 for infinities, where the difference would be NaN.
static __device__ float LostByRounding(float x) {
  const float rounded = ToFloat(FromFloat<__nv_bfloat16>(x));
  return fabsf(rounded) < INFINITY ? x - rounded : 0.0f;
}

template <int kCount>
static __device__ void StoreTerms(const TermArgs& args, int64_t row, int column,
                                  const Floats<kCount>& x) {
  __nv_bfloat16* const high = args.out + row * args.stride + column;
  StoreFloats(high, x);
  if (args.terms == 1) return;
  Floats<kCount> lost;
  for (int i = 0; i < kCount; ++i) lost.values[i] = LostByRounding(x.values[i]);
  StoreFloats(high + static_cast<int64_t>(args.input.in.rows) * args.stride, lost);
}

// A block has one row.
template <int kCount>
static __global__ void __launch_bounds__(kNormThreads)
    NormTermsKernel(const __grid_constant__ TermArgs args) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  LetNextKernelStart();
  const int64_t row = blockIdx.x;
  const int columns = args.input.in.columns;
  NormaliseRow<kCount>(
      args.input.in.data + row * columns, args.input.other, columns, args.input.epsilon,
      reinterpret_cast<float*>(shared_memory),
      [&](int column, const Floats<kCount>& x) { StoreTerms(args, row, column, x); });
  static_assert(kTileColumns <= kNormThreads, "a thread has one column behind the row's end");
  const int behind = columns + static_cast<int>(threadIdx.x);
  if (behind < args.stride) StoreTerms(args, row, behind, Floats<1>{});
}

// A block has the columns of row blockIdx.x that are its y-th, and a thread kTermQuads times four of
// them, whose loads are in flight together. Columns behind the row's end become 0.
template <VectorInput::Kind kKind>
static __global__ void __launch_bounds__(kTermThreads)
    ProductTermsKernel(const __grid_constant__ TermArgs args) {
  LetNextKernelStart();
  WaitForPreviousKernel();
  const int64_t row = blockIdx.x;
  const int columns = args.input.in.columns;
  const int first = 4 * static_cast<int>(blockIdx.y * kTermQuads * kTermThreads + threadIdx.x);
  float4 x[kTermQuads];
  float4 up[kTermQuads];
#pragma unroll
  for (int i = 0; i < kTermQuads; ++i) {
    const int column = first + i * 4 * kTermThreads;
    x[i] = LoadQuad(args.input.in.data + row * columns, column, columns);
    if constexpr (kKind == VectorInput::Kind::kGated) {
      up[i] = LoadQuad(args.input.other + row * columns, column, columns);
    }
  }
#pragma unroll
  for (int i = 0; i < kTermQuads; ++i) {
    const int column = first + i * 4 * kTermThreads;
    if (column >= args.stride) continue;
    if constexpr (kKind == VectorInput::Kind::kGated) {
      x[i] = GatedQuad(args.input.function, x[i], up[i]);
    }
    StoreTerms(args, row, column, Floats<4>{{x[i].x, x[i].y, x[i].z, x[i].w}});
  }
}

ProductTerms LaunchProductTerms(const VectorInput& input, int terms, void* data,
                                cudaStream_t stream) {
  BATON_CHECK(terms == 1 || terms == 2, "terms of a product's input");
  const Tensor& in = input.in;
  BATON_CHECK(in.columns % 4 != 0 || MultiplesOf16({in.data, input.other}),
              "activations must begin at multiples of 16 bytes");
  const TermArgs args = {input, terms, ProductTermStride(in.columns),
                         static_cast<__nv_bfloat16*>(data)};
  const auto rows = static_cast<unsigned>(in.rows);
  const LaunchOptions whole_rows = {.grid = rows,
                                    .block = kNormThreads,
                                    .shared_bytes = kNormSharedBytes,
                                    .stream = stream,
                                    .may_start_early = true};
  const LaunchOptions parts = {
      .grid = dim3(rows, BlocksFor(args.stride, 4 * kTermQuads * kTermThreads)),
      .block = kTermThreads,
      .stream = stream,
      .may_start_early = true};
  switch (input.kind) {
    case VectorInput::Kind::kPlain:
      Launch(ProductTermsKernel<VectorInput::Kind::kPlain>, parts, args);
      break;
    case VectorInput::Kind::kNorm:
      Launch(in.columns % 4 == 0 ? NormTermsKernel<4> : NormTermsKernel<1>, whole_rows, args);
      break;
    case VectorInput::Kind::kGated:
      Launch(ProductTermsKernel<VectorInput::Kind::kGated>, parts, args);
      break;
  }
  return {.data = data, .terms = terms, .rows = in.rows, .columns = in.columns};
}

}  // namespace baton
