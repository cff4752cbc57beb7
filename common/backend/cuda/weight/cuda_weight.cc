#include "common/backend/cuda/weight/cuda_weight.h"

#include <climits>
#include <optional>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/backend/cuda/weight/weight_layout.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

std::optional<CudaElement> ElementOf(GgmlType type) {
  switch (type) {
    case GgmlType::kF32:
      return CudaElement::kF32;
    case GgmlType::kF16:
      return CudaElement::kF16;
    case GgmlType::kBf16:
      return CudaElement::kBf16;
    case GgmlType::kQ8_0:
      return CudaElement::kQ8_0;
    case GgmlType::kQ4_0:
      return CudaElement::kQ4_0;
    case GgmlType::kQ4_1:
      return CudaElement::kQ4_1;
    case GgmlType::kMxfp4:
      return CudaElement::kMxfp4;
    case GgmlType::kQ4_K:
      return CudaElement::kQ4_K;
    case GgmlType::kQ6_K:
      return CudaElement::kQ6_K;
    default:
      return std::nullopt;
  }
}

// The element of a matrix that can be loaded.
absl::StatusOr<CudaElement> CheckedElement(const GgufTensor& tensor) {
  if (tensor.dims.size() != 2 || tensor.dims[0] == 0 || tensor.dims[1] == 0 ||
      tensor.dims[0] > INT_MAX / 64 || tensor.dims[1] > INT_MAX / 64) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor '", tensor.name,
        "': must be a matrix with 1 to 33554431 rows and columns; fetch the file again"));
  }
  const std::optional<CudaElement> element = ElementOf(tensor.type);
  if (!element.has_value()) {
    return absl::UnimplementedError(
        absl::StrCat("tensor '", tensor.name, "': type ", GgmlTypeName(tensor.type),
                     " is not supported on CUDA; supported are F32, "
                     "F16, BF16, Q8_0, Q4_0, Q4_1, Q4_K, Q6_K and MXFP4"));
  }
  const int columns = static_cast<int>(tensor.dims[0]);
  if (columns % BlockColumns(*element) != 0) {
    return absl::InvalidArgumentError(absl::StrCat("tensor '", tensor.name, "': ", columns,
                                                   " columns are not a multiple of the block size ",
                                                   BlockColumns(*element)));
  }
  return *element;
}

}  // namespace

absl::StatusOr<size_t> CudaWeight::DeviceBytes(const GgufTensor& tensor) {
  BATON_ASSIGN_OR_RETURN(const CudaElement element, CheckedElement(tensor));
  return tensor.dims[1] * CudaRowBytes(element, static_cast<int>(tensor.dims[0]));
}

absl::StatusOr<std::unique_ptr<CudaWeight>> CudaWeight::Load(const GgufTensor& tensor,
                                                             Allocate allocate,
                                                             WeightUpload& upload) {
  BATON_ASSIGN_OR_RETURN(const CudaElement element, CheckedElement(tensor));
  const int rows = static_cast<int>(tensor.dims[1]);
  const int columns = static_cast<int>(tensor.dims[0]);
  BATON_ASSIGN_OR_RETURN(const size_t bytes, DeviceBytes(tensor));
  BATON_ASSIGN_OR_RETURN(BackendBuffer data, allocate(bytes));
  BATON_ASSIGN_OR_RETURN(const bool valid,
                         upload.Copy({.element = element,
                                      .rows = tensor.dims[1],
                                      .columns = columns,
                                      .row_bytes = tensor.data.size() / tensor.dims[1],
                                      .data = tensor.data.data()},
                                     data.data()));
  if (!valid) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor '", tensor.name, "': a block of ", GgmlTypeName(tensor.type),
        " has the exponent 255, which is not a number: the file is damaged; fetch it again"));
  }
  return std::unique_ptr<CudaWeight>(new CudaWeight(rows, columns, element, std::move(data)));
}

}  // namespace baton
