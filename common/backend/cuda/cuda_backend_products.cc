// The products of the CUDA backend: which kernels or library compute them.
#include <algorithm>
#include <iterator>
#include <set>
#include <span>
#include <vector>

#include "common/backend/cuda/cuda_backend.h"
#include "common/backend/cuda/device/cuda_error.h"
#include "common/backend/cuda/experts/expert_mixer.h"
#include "common/backend/cuda/product/invariant/invariant_product.h"
#include "common/backend/cuda/product/library/weight_product.h"
#include "common/backend/cuda/product/product_dispatch.h"
#include "common/backend/cuda/product/product_input.h"
#include "common/backend/cuda/product/tiles/tile_product.h"
#include "common/backend/cuda/product/two_rows/two_row_product.h"
#include "common/backend/cuda/product/vector/vector_product.h"
#include "common/backend/cuda/weight/cuda_weight.h"
#include "common/backend/cuda/weight/weight_layout.h"
#include "common/base/check.h"

namespace baton {
namespace {

// The element that a quantised weight is dequantised to for the library. Its range is as wide as
// that of the activations.
constexpr CudaElement kDequantisedElement = CudaElement::kBf16;
// Dequantised at a time: few enough bytes to stay in the L2 cache until they are multiplied.
constexpr size_t kDequantisedBytes = size_t{32} << 20;

std::vector<VectorOutput> VectorOutputsOf(absl::Span<const Backend::ProductOutput> outputs) {
  std::vector<VectorOutput> all;
  for (const Backend::ProductOutput& output : outputs) {
    all.push_back({MatrixOf(*output.weight), output.out, output.accumulate, output.scale});
  }
  return all;
}

// The outputs whose weights have the property.
template <class Property>
std::vector<VectorOutput> Those(std::span<const VectorOutput> outputs, const Property& property) {
  std::vector<VectorOutput> those;
  std::copy_if(outputs.begin(), outputs.end(), std::back_inserter(those),
               [&](const VectorOutput& output) { return property(output.weight.element); });
  return those;
}

// Calls visit(element, outputs) for the outputs of each element type.
template <class Visit>
void ByElement(std::span<const VectorOutput> outputs, const Visit& visit) {
  std::set<CudaElement> elements;
  for (const VectorOutput& output : outputs) elements.insert(output.weight.element);
  for (const CudaElement element : elements) {
    visit(element, Those(outputs, [&](CudaElement other) { return other == element; }));
  }
}

// Calls visit(outputs) for as many outputs at a time as one launch takes.
template <class Visit>
void ForEachFew(std::span<const VectorOutput> outputs, const Visit& visit) {
  for (size_t first = 0; first < outputs.size(); first += kMaxVectorOutputs) {
    visit(outputs.subspan(first, std::min<size_t>(kMaxVectorOutputs, outputs.size() - first)));
  }
}

}  // namespace

void CudaBackend::Multiply(const VectorInput& input, InputPrecision precision,
                           absl::Span<const ProductOutput> outputs) {
  for (const ProductOutput& output : outputs) {
    BATON_CHECK(output.weight->columns() == input.in.columns && output.out.rows == input.in.rows &&
                    output.out.columns == output.weight->rows(),
                "the shapes of input, weight and output must fit");
  }
  const std::vector<VectorOutput> all = VectorOutputsOf(outputs);
  if (options_.deterministic) {
    return MultiplyParts(input, precision == InputPrecision::kFine ? 2 : 1, all);
  }
  for (const ProductKernel kernel :
       {ProductKernel::kVector, ProductKernel::kTwoRows, ProductKernel::kParts,
        ProductKernel::kTiles, ProductKernel::kLibrary}) {
    const std::vector<VectorOutput> those = Those(
        all, [&](CudaElement element) { return KernelFor(element, input.in.rows) == kernel; });
    if (!those.empty()) MultiplyBy(kernel, input, those);
  }
}

ProductKernel CudaBackend::KernelFor(CudaElement element, int rows) const {
  const ProductKernel kernel = ProductKernelOf(element, rows);
  return kernel == ProductKernel::kLibrary && gemm_ == nullptr ? KernelWithoutLibrary(element)
                                                               : kernel;
}

void CudaBackend::MultiplyBy(ProductKernel kernel, const VectorInput& input,
                             std::span<const VectorOutput> outputs) {
  switch (kernel) {
    case ProductKernel::kVector:
      return MultiplyVector(input, outputs);
    case ProductKernel::kTwoRows:
      return MultiplyTwoRows(input, outputs);
    case ProductKernel::kParts: {
      int terms = 1;
      for (const VectorOutput& output : outputs) {
        terms = std::max(terms, PartsTermsOf(output.weight.element));
      }
      return MultiplyParts(input, terms, outputs);
    }
    case ProductKernel::kTiles:
      return MultiplyTiles(input, outputs);
    case ProductKernel::kLibrary:
      return MultiplyByLibrary(input, outputs);
  }
}

ProductTerms CudaBackend::PrepareTerms(const VectorInput& input, int terms) {
  Grow(ProductTermBytes(terms, input.in.rows, input.in.columns), product_input_);
  return LaunchProductTerms(input, terms, product_input_.data(), stream_.get());
}

void CudaBackend::MultiplyParts(const VectorInput& input, int terms,
                                std::span<const VectorOutput> outputs) {
  const ProductTerms in = PrepareTerms(input, terms);
  // By the first product, whatever its rows, so that no later one takes memory.
  const bool quantised =
      std::any_of(outputs.begin(), outputs.end(),
                  [](const VectorOutput& output) { return IsQuantised(output.weight.element); });
  if (quantised) Grow(SplitScratchBytes(limits_), product_sums_);
  ForEachFew(outputs, [&](std::span<const VectorOutput> few) {
    LaunchInvariantProduct(in, few, limits_, {product_sums_.data()}, stream_.get());
  });
}

void CudaBackend::MultiplyTiles(const VectorInput& input, std::span<const VectorOutput> outputs) {
  const ProductTerms in = PrepareTerms(input, 1);
  Grow(SplitScratchBytes(limits_), product_sums_);
  ForEachFew(outputs, [&](std::span<const VectorOutput> few) {
    LaunchTileProduct(in, few, limits_, {product_sums_.data()}, stream_.get());
  });
}

void CudaBackend::MultiplyTwoRows(const VectorInput& input, std::span<const VectorOutput> outputs) {
  const ProductTerms in = PrepareTerms(input, 1);
  ForEachFew(outputs, [&](std::span<const VectorOutput> few) {
    LaunchTwoRowProduct(in, few, stream_.get());
  });
}

void CudaBackend::MultiplyVector(VectorInput input, std::span<const VectorOutput> outputs) {
  if (input.kind == VectorInput::Kind::kGated && MakeGatesFirst(input.in.rows, input.in.columns)) {
    PrepareInput(input, CudaElement::kF32);
    input = {
        .in = {reinterpret_cast<float*>(product_input_.data()), input.in.rows, input.in.columns}};
  }
  ForEachFew(outputs, [&](std::span<const VectorOutput> few) {
    LaunchVectorProduct(input, few, limits_, stream_.get());
  });
}

void CudaBackend::ReserveDequantised(std::span<const VectorOutput> outputs) {
  size_t bytes = 0;
  for (const VectorOutput& output : outputs) {
    const size_t row_bytes = CudaRowBytes(kDequantisedElement, output.weight.columns);
    const size_t whole = row_bytes * static_cast<size_t>(output.weight.rows);
    bytes = std::max({bytes, row_bytes, std::min(whole, kDequantisedBytes)});
  }
  Grow(bytes, dequantised_);
}

void CudaBackend::PrepareInput(const VectorInput& input, CudaElement element) {
  const auto elements = static_cast<size_t>(input.in.rows) * static_cast<size_t>(input.in.columns);
  Grow(elements * ElementBytes(element), product_input_);
  switch (input.kind) {
    case VectorInput::Kind::kPlain:
      return LaunchConvertRows(input.in, element, product_input_.data(), stream_.get());
    case VectorInput::Kind::kNorm:
      return LaunchNormRows(input.in, input.other, input.epsilon, element, product_input_.data(),
                            stream_.get());
    case VectorInput::Kind::kGated:
      return LaunchGatedRows(input.function, input.in,
                             {const_cast<float*>(input.other), input.in.rows, input.in.columns},
                             element, product_input_.data(), stream_.get());
  }
}

void CudaBackend::MultiplyByLibrary(const VectorInput& input,
                                    std::span<const VectorOutput> outputs) {
  ByElement(outputs, [&](CudaElement element, std::span<const VectorOutput> together) {
    const CudaElement in_element = IsQuantised(element) ? kDequantisedElement : element;
    PrepareInput(input, in_element);
    if (IsQuantised(element)) ReserveDequantised(together);
    for (const VectorOutput& output : together) {
      const absl::Status status = MultiplyWeight(
          *gemm_,
          {.in = product_input_.data(),
           .rows = input.in.rows,
           .weight = output.weight,
           .out = output.out.data,
           .out_stride = output.out.columns,
           .accumulate = output.accumulate,
           .scale = output.scale},
          in_element, {dequantised_.data(), dequantised_.size_bytes()}, stream_.get());
      if (!status.ok()) EndAfterCudaError(status.ToString());
    }
  });
}

int CudaBackend::ExpertTerms(int rows, const Experts& experts) const {
  if (options_.deterministic) return 1;
  const auto are_fine = [](absl::Span<const std::unique_ptr<Weight>> weights) {
    const CudaElement element = MatrixOf(*weights.front()).element;
    return element == CudaElement::kF16 || element == CudaElement::kF32;
  };
  const bool fine = are_fine(experts.gate) || are_fine(experts.up) || are_fine(experts.down);
  return fine || rows <= kFineExpertRows ? 2 : 1;
}

}  // namespace baton
