#include "common/backend/cpu/product/cpu_weight.h"

#include <algorithm>
#include <atomic>
#include <climits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/backend/cpu/machine/memory.h"
#include "common/backend/cpu/product/weight_packing.h"
#include "common/base/status_macros.h"

namespace baton {

CpuWeight::CpuWeight(const GgufTensor& tensor, size_t group_bytes, BackendBuffer data)
    : Weight(static_cast<int>(tensor.dims[1]), static_cast<int>(tensor.dims[0])),
      type_(tensor.type),
      group_bytes_(group_bytes),
      data_(std::move(data)) {}

absl::StatusOr<size_t> CpuWeight::PackedBytes(const GgufTensor& tensor) {
  if (tensor.dims.size() != 2 || tensor.dims[0] == 0 || tensor.dims[1] == 0 ||
      tensor.dims[0] > INT_MAX / 64 || tensor.dims[1] > INT_MAX / 64) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor '", tensor.name,
        "': must be a matrix with 1 to 33554431 rows and columns; fetch the file again"));
  }
  const size_t group_bytes = PackedGroupBytes(tensor.type, tensor.dims[0]);
  if (group_bytes == 0) {
    return absl::UnimplementedError(absl::StrCat("tensor '", tensor.name, "': type ",
                                                 GgmlTypeName(tensor.type),
                                                 " is not supported; supported are F32, F16, BF16, "
                                                 "Q8_0, Q4_0, Q4_1, Q5_0, Q5_1, Q4_K, Q5_K, "
                                                 "Q6_K and MXFP4"));
  }
  return (tensor.dims[1] + kLanes - 1) / kLanes * group_bytes;
}

absl::StatusOr<std::unique_ptr<CpuWeight>> CpuWeight::Pack(const GgufTensor& tensor,
                                                           ThreadPool& pool, CpuMemory& memory) {
  BATON_ASSIGN_OR_RETURN(const size_t bytes, PackedBytes(tensor));
  const int rows = static_cast<int>(tensor.dims[1]);
  const int columns = static_cast<int>(tensor.dims[0]);
  const int groups = (rows + kLanes - 1) / kLanes;
  const size_t group_bytes = bytes / static_cast<size_t>(groups);
  BATON_ASSIGN_OR_RETURN(BackendBuffer data, memory.Allocate(bytes));
  const size_t row_bytes = tensor.data.size() / tensor.dims[1];
  std::atomic<bool> valid = true;
  pool.ParallelFor(groups, [&](int begin, int end) {
    for (int row = begin * kLanes; row < std::min(end * kLanes, rows); ++row) {
      const uint8_t* file = tensor.data.data() + static_cast<size_t>(row) * row_bytes;
      if (!ValidRow(tensor.type, file, columns)) valid = false;
      PackRow(tensor.type, file, columns, row % kLanes,
              data.data() + static_cast<size_t>(row / kLanes) * group_bytes);
    }
  });
  if (!valid) {
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor '", tensor.name, "': a block of ", GgmlTypeName(tensor.type),
        " has the exponent 255, which is not a number: the file is damaged; fetch it again"));
  }
  return std::unique_ptr<CpuWeight>(new CpuWeight(tensor, group_bytes, std::move(data)));
}

bool CpuWeight::quantised() const {
  return type_ != GgmlType::kF32 && type_ != GgmlType::kF16 && type_ != GgmlType::kBf16;
}

void CpuWeight::Dequantise(int row, float* out) const {
  DequantiseRow(type_, data_.data() + static_cast<size_t>(row / kLanes) * group_bytes_, columns(),
                row % kLanes, out);
}

}  // namespace baton
