#include "common/backend/cuda/product/cuda_weight.h"

#include <cuda_runtime.h>

#include <algorithm>
#include <climits>
#include <optional>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/backend/cuda/device/cuda_error.h"
#include "common/backend/cuda/product/weight_layout.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

// Bytes of rows that are laid out for the device at a time.
constexpr size_t kStagingBytes = size_t{8} << 20;

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

void CopyToDevice(const uint8_t* host, size_t bytes, uint8_t* device) {
  CheckCuda(cudaMemcpy(device, host, bytes, cudaMemcpyHostToDevice), "copy of a weight");
}

// Copies the file's rows to `device` [rows, CudaRowBytes]. Returns whether all of them are valid.
bool CopyRows(const GgufTensor& tensor, CudaElement element, uint8_t* device) {
  const size_t rows = tensor.dims[1];
  const int columns = static_cast<int>(tensor.dims[0]);
  const size_t file_row_bytes = tensor.data.size() / rows;
  const size_t row_bytes = CudaRowBytes(element, columns);
  if (!IsQuantised(element) && file_row_bytes == row_bytes) {
    CopyToDevice(tensor.data.data(), rows * row_bytes, device);
    return true;
  }
  const size_t staged_rows = std::clamp<size_t>(kStagingBytes / row_bytes, 1, rows);
  std::vector<uint8_t> staging;
  for (size_t first = 0; first < rows; first += staged_rows) {
    const size_t count = std::min(staged_rows, rows - first);
    staging.assign(count * row_bytes, 0);
    for (size_t row = 0; row < count; ++row) {
      const uint8_t* const file = tensor.data.data() + (first + row) * file_row_bytes;
      if (!ValidFileRow(element, file, columns)) return false;
      PackCudaRow(element, file, columns, &staging[row * row_bytes]);
    }
    CopyToDevice(staging.data(), staging.size(), device + first * row_bytes);
  }
  return true;
}

// The element of a matrix that can be loaded.
absl::StatusOr<CudaElement> CheckedElement(const GgufTensor& tensor) {
  if (tensor.dims.size() != 2 || tensor.dims[0] == 0 || tensor.dims[1] == 0 ||
      tensor.dims[0] > INT_MAX / 64 || tensor.dims[1] > INT_MAX / 64) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", tensor.name, "': must be a matrix of a reasonable size"));
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
                                                   " columns are no whole blocks of ",
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
                                                             Allocate allocate) {
  BATON_ASSIGN_OR_RETURN(const CudaElement element, CheckedElement(tensor));
  const int rows = static_cast<int>(tensor.dims[1]);
  const int columns = static_cast<int>(tensor.dims[0]);
  BATON_ASSIGN_OR_RETURN(const size_t bytes, DeviceBytes(tensor));
  BATON_ASSIGN_OR_RETURN(BackendBuffer data, allocate(bytes));
  if (!CopyRows(tensor, element, data.data())) {
    return absl::InvalidArgumentError(
        absl::StrCat("tensor '", tensor.name, "': a block of ", GgmlTypeName(tensor.type),
                     " has the exponent 255, which is no number: the file is damaged; fetch it "
                     "again"));
  }
  // The last copy may still be in flight, and the operations' stream does not wait for it.
  CheckCuda(cudaDeviceSynchronize(), "copy of a weight");
  return std::unique_ptr<CudaWeight>(new CudaWeight(rows, columns, element, std::move(data)));
}

}  // namespace baton
