// The products of the CUDA backend: which kernels or library compute them.
#include <algorithm>
#include <span>
#include <vector>

#include "common/backend/cuda/cuda_backend.h"
#include "common/backend/cuda/device/cuda_error.h"
#include "common/backend/cuda/product/cuda_weight.h"
#include "common/backend/cuda/product/invariant_product.h"
#include "common/backend/cuda/product/product_input.h"
#include "common/backend/cuda/product/weight_layout.h"
#include "common/backend/cuda/product/weight_product.h"
#include "common/base/check.h"

namespace baton {
namespace {

// The element that a quantised weight is dequantised to for the library. Its range is as wide as
// that of the activations.
constexpr CudaElement kDequantisedElement = CudaElement::kBf16;
// Dequantised at a time: few enough bytes to stay in the L2 cache until they are multiplied.
constexpr size_t kDequantisedBytes = size_t{32} << 20;
// Groups the outputs by the element type of their weights. Calls visit(element, outputs) for each.
template <class Visit>
void ByElement(absl::Span<const Backend::ProductOutput> outputs, const Visit& visit) {
  std::vector<bool> done(outputs.size());
  std::vector<VectorOutput> together;
  for (size_t i = 0; i < outputs.size(); ++i) {
    if (done[i]) continue;
    const CudaElement element = MatrixOf(*outputs[i].weight).element;
    together.clear();
    for (size_t j = i; j < outputs.size(); ++j) {
      const CudaMatrix matrix = MatrixOf(*outputs[j].weight);
      if (matrix.element != element) continue;
      done[j] = true;
      together.push_back({matrix, outputs[j].out, outputs[j].accumulate, outputs[j].scale});
    }
    visit(element, std::span<const VectorOutput>(together));
  }
}

// Calls visit(outputs) for as many outputs at a time as one launch takes.
template <class Visit>
void ForEachFew(absl::Span<const Backend::ProductOutput> outputs, const Visit& visit) {
  std::vector<VectorOutput> all;
  for (const Backend::ProductOutput& output : outputs) {
    all.push_back({MatrixOf(*output.weight), output.out, output.accumulate, output.scale});
  }
  for (size_t first = 0; first < all.size(); first += kMaxVectorOutputs) {
    const size_t count = std::min<size_t>(kMaxVectorOutputs, all.size() - first);
    visit(std::span<const VectorOutput>(all).subspan(first, count));
  }
}

}  // namespace

void CudaBackend::Multiply(const VectorInput& input, InputPrecision precision,
                           absl::Span<const ProductOutput> outputs) {
  for (const ProductOutput& output : outputs) {
    BATON_CHECK(output.weight->columns() == input.in.columns && output.out.rows == input.in.rows &&
                    output.out.columns == output.weight->rows(),
                "shapes");
  }
  if (options_.deterministic) {
    MultiplyInvariant(input, precision, outputs);
  } else if (input.in.rows <= kMaxVectorRows) {
    MultiplyFewRows(input, outputs);
  } else {
    MultiplyManyRows(input, outputs);
  }
}

void CudaBackend::MultiplyInvariant(const VectorInput& input, InputPrecision precision,
                                    absl::Span<const ProductOutput> outputs) {
  const int terms = precision == InputPrecision::kFine ? 2 : 1;
  Grow(ProductTermBytes(terms, input.in.rows, input.in.columns), product_terms_);
  const ProductTerms in = LaunchProductTerms(input, terms, product_terms_.data(), stream_.get());
  ForEachFew(outputs, [&](std::span<const VectorOutput> few) {
    LaunchInvariantProduct(in, few, limits_, stream_.get());
  });
}

void CudaBackend::MultiplyFewRows(VectorInput input, absl::Span<const ProductOutput> outputs) {
  if (input.kind == VectorInput::Kind::kGated && MakeGatesFirst(input.in.rows, input.in.columns)) {
    PrepareGemmInput(input, CudaElement::kF32);
    input = {.in = {reinterpret_cast<float*>(gemm_input_.data()), input.in.rows, input.in.columns}};
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

void CudaBackend::PrepareGemmInput(const VectorInput& input, CudaElement element) {
  const auto elements = static_cast<size_t>(input.in.rows) * static_cast<size_t>(input.in.columns);
  Grow(elements * ElementBytes(element), gemm_input_);
  switch (input.kind) {
    case VectorInput::Kind::kPlain:
      return LaunchConvertRows(input.in, element, gemm_input_.data(), stream_.get());
    case VectorInput::Kind::kNorm:
      return LaunchNormRows(input.in, input.other, input.epsilon, element, gemm_input_.data(),
                            stream_.get());
    case VectorInput::Kind::kGated:
      return LaunchGatedRows(input.function, input.in,
                             {const_cast<float*>(input.other), input.in.rows, input.in.columns},
                             element, gemm_input_.data(), stream_.get());
  }
}

void CudaBackend::MultiplyManyRows(const VectorInput& input,
                                   absl::Span<const ProductOutput> outputs) {
  ByElement(outputs, [&](CudaElement element, std::span<const VectorOutput> together) {
    const CudaElement in_element = IsQuantised(element) ? kDequantisedElement : element;
    PrepareGemmInput(input, in_element);
    if (IsQuantised(element)) ReserveDequantised(together);
    for (const VectorOutput& output : together) {
      const absl::Status status = MultiplyWeight(
          *gemm_,
          {.in = gemm_input_.data(),
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

int CudaBackend::ExpertTerms(int rows, const Weight& weight) const {
  if (options_.deterministic) return 1;
  const CudaElement element = MatrixOf(weight).element;
  const bool rounded = IsQuantised(element) || element == CudaElement::kBf16;
  return rounded && rows > kMaxVectorRows ? 1 : 2;
}

}  // namespace baton
