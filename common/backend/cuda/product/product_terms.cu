#include <cuda_bf16.h>

#include "common/backend/cuda/device/device.h"
#include "common/backend/cuda/device/launch.h"
#include "common/backend/cuda/product/product_terms.h"
#include "common/backend/cuda/product/vector_product_input.h"
#include "common/base/check.h"
#include "ptx.h"

namespace baton {

constexpr int kTermThreads = 256;

struct TermArgs {
  VectorInput input;
  int terms;
  int stride;
  __nv_bfloat16* out;  // [terms, rows, stride]
};

// The factor of the row's elements before the gain. Thread t sums the squares of the quads that are
// t mod kTermThreads, in ascending order.
static __device__ float NormScale(const TermArgs& args, const float* row, float* scratch) {
  const int columns = args.input.in.columns;
  float squares = 0;
  for (int column = 4 * static_cast<int>(threadIdx.x); column < columns;
       column += 4 * kTermThreads) {
    const float4 x = LoadQuad(row, column, columns);
    squares = FmaQuad(x, x, squares);
  }
  const float sum = BlockSum<kTermThreads>(squares, scratch);
  return 1.0f / sqrtf(sum / static_cast<float>(columns) + args.input.epsilon);
}

// Four columns of the product's input; columns behind the row's end are 0.
template <VectorInput::Kind kKind>
static __device__ float4 TermQuad(const TermArgs& args, const float* row, const float* other,
                                  float scale, int column) {
  const int columns = args.input.in.columns;
  const float4 x = LoadQuad(row, column, columns);
  if constexpr (kKind == VectorInput::Kind::kPlain) return x;
  const float4 y = LoadQuad(other, column, columns);
  if constexpr (kKind == VectorInput::Kind::kNorm) {
    return make_float4(x.x * scale * y.x, x.y * scale * y.y, x.z * scale * y.z, x.w * scale * y.w);
  }
  return GatedQuad(args.input.function, x, y);
}

// The part of x that rounding to BF16 loses; 0 for infinities, where the difference would be NaN.
static __device__ float LostByRounding(float x) {
  const float rounded = ToFloat(FromFloat<__nv_bfloat16>(x));
  return fabsf(rounded) < INFINITY ? x - rounded : 0.0f;
}

// A block has one row.
template <VectorInput::Kind kKind>
static __global__ void __launch_bounds__(kTermThreads)
    ProductTermsKernel(const __grid_constant__ TermArgs args) {
  extern __shared__ __align__(16) uint8_t shared_memory[];
  LetNextKernelStart();
  WaitForPreviousKernel();
  const Tensor& in = args.input.in;
  const int64_t index = blockIdx.x;
  const float* const row = in.data + index * in.columns;
  const float* const other =
      args.input.other + (kKind == VectorInput::Kind::kGated ? index * in.columns : 0);
  float scale = 1;
  if constexpr (kKind == VectorInput::Kind::kNorm) {
    scale = NormScale(args, row, reinterpret_cast<float*>(shared_memory));
  }
  __nv_bfloat16* const high = args.out + index * args.stride;
  __nv_bfloat16* const low = high + static_cast<int64_t>(in.rows) * args.stride;
  for (int column = 4 * static_cast<int>(threadIdx.x); column < args.stride;
       column += 4 * kTermThreads) {
    const float4 x = TermQuad<kKind>(args, row, other, scale, column);
    StoreFloats(high + column, Floats<4>{{x.x, x.y, x.z, x.w}});
    if (args.terms == 1) continue;
    StoreFloats(low + column, Floats<4>{{LostByRounding(x.x), LostByRounding(x.y),
                                         LostByRounding(x.z), LostByRounding(x.w)}});
  }
}

ProductTerms LaunchProductTerms(const VectorInput& input, int terms, void* data,
                                cudaStream_t stream) {
  BATON_CHECK(terms == 1 || terms == 2, "terms of a product's input");
  const Tensor& in = input.in;
  BATON_CHECK(in.columns % 4 != 0 || MultiplesOf16({in.data, input.other}), "aligned activations");
  const TermArgs args = {input, terms, ProductTermStride(in.columns),
                         static_cast<__nv_bfloat16*>(data)};
  const LaunchOptions options = {.grid = static_cast<unsigned>(in.rows),
                                 .block = kTermThreads,
                                 .shared_bytes = kTermThreads / kWarpLanes * sizeof(float),
                                 .stream = stream,
                                 .may_start_early = true};
  switch (input.kind) {
    case VectorInput::Kind::kPlain:
      Launch(ProductTermsKernel<VectorInput::Kind::kPlain>, options, args);
      break;
    case VectorInput::Kind::kNorm:
      Launch(ProductTermsKernel<VectorInput::Kind::kNorm>, options, args);
      break;
    case VectorInput::Kind::kGated:
      Launch(ProductTermsKernel<VectorInput::Kind::kGated>, options, args);
      break;
  }
  return {.data = data, .terms = terms, .rows = in.rows, .columns = in.columns};
}

}  // namespace baton
