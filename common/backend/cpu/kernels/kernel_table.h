// Instantiates all kernels for one Simd type. Only the sources kernels_*.cc include it.
#pragma once

#include "common/backend/cpu/attention/attention_row_kernel.h"
#include "common/backend/cpu/attention/attention_tile_kernel.h"
#include "common/backend/cpu/attention/rope_kernel.h"
#include "common/backend/cpu/kernels/kernels.h"
#include "common/backend/cpu/kernels/peak_kernel.h"
#include "common/backend/cpu/product/float_product_kernel.h"
#include "common/backend/cpu/product/product_input_kernel.h"
#include "common/backend/cpu/product/product_kernel.h"

namespace baton {

template <class Simd>
struct AnyProduct {
  static void Run(const ProductArgs& args, int begin, int end) {
    switch (args.type) {
      case GgmlType::kF32:
        return FloatProduct<Simd, F32Element<Simd>>::Run(args, begin, end);
      case GgmlType::kF16:
        return FloatProduct<Simd, F16Element<Simd>>::Run(args, begin, end);
      case GgmlType::kBf16:
        return FloatProduct<Simd, Bf16Element<Simd>>::Run(args, begin, end);
      case GgmlType::kQ4_0:
        return QuantisedProduct<Simd, Q4_0Format<Simd>>::Run(args, begin, end);
      case GgmlType::kQ4_1:
        return QuantisedProduct<Simd, Q4_1Format<Simd>>::Run(args, begin, end);
      case GgmlType::kQ5_0:
        return QuantisedProduct<Simd, Q5_0Format<Simd>>::Run(args, begin, end);
      case GgmlType::kQ5_1:
        return QuantisedProduct<Simd, Q5_1Format<Simd>>::Run(args, begin, end);
      case GgmlType::kQ8_0:
        return QuantisedProduct<Simd, Q8_0Format<Simd>>::Run(args, begin, end);
      case GgmlType::kQ4_K:
        return QuantisedProduct<Simd, Q4_KFormat<Simd>>::Run(args, begin, end);
      case GgmlType::kQ5_K:
        return QuantisedProduct<Simd, Q5_KFormat<Simd>>::Run(args, begin, end);
      case GgmlType::kQ6_K:
        return QuantisedProduct<Simd, Q6_KFormat<Simd>>::Run(args, begin, end);
      case GgmlType::kMxfp4:
        return QuantisedProduct<Simd, Mxfp4Format<Simd>>::Run(args, begin, end);
      default:  // CpuWeight has no other types
        return;
    }
  }
};

template <class Simd>
constexpr CpuKernels MakeKernels() {
  return {.prepare_input = &ProductInputKernel<Simd>::Run,
          .product = &AnyProduct<Simd>::Run,
          .rotate_and_append = &RopeKernel<Simd>::Run,
          .attend_tile = &AttentionTileKernel<Simd>::Run,
          .attend_row_segment = &AttentionRowKernel<Simd>::Run,
          .merge_row_segments = &AttentionRowKernel<Simd>::Merge,
          .peak = MakePeakLoops<Simd>()};
}

}  // namespace baton
