#include "common/model/tensor_loader.h"

#include <cstring>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "common/base/float_types.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

size_t ElementsOf(const GgufTensor& tensor) {
  size_t count = 1;
  for (const uint64_t dim : tensor.dims) count *= dim;
  return count;
}

// The values of a tensor of floats, in the host's memory.
std::vector<float> Floats(const GgufTensor& tensor) {
  std::vector<float> values(ElementsOf(tensor));
  for (size_t i = 0; i < values.size(); ++i) {
    if (tensor.type == GgmlType::kF32) {
      std::memcpy(&values[i], tensor.data.data() + i * sizeof(float), sizeof(float));
      continue;
    }
    uint16_t half;
    std::memcpy(&half, tensor.data.data() + i * sizeof(half), sizeof(half));
    values[i] = tensor.type == GgmlType::kF16 ? F16ToF32(half) : Bf16ToF32(half);
  }
  return values;
}

}  // namespace

bool TensorLoader::HasRows(const std::string& name, int rows) const {
  const GgufTensor* tensor = file_.FindTensor(name);
  return tensor != nullptr && tensor->dims.size() == 2 &&
         tensor->dims[1] == static_cast<uint64_t>(rows);
}

absl::Status TensorLoader::Matrices(const std::string& name, int columns,
                                    absl::Span<const RowRange> ranges) {
  int rows = 0;
  for (const RowRange& range : ranges) rows += range.rows;
  BATON_ASSIGN_OR_RETURN(const GgufTensor* tensor,
                         Find(name, {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)}));
  return Split(*tensor, ranges);
}

absl::Status TensorLoader::Stack(const std::string& name, int count, int rows, int columns,
                                 std::vector<std::unique_ptr<Weight>>& out) {
  BATON_ASSIGN_OR_RETURN(const GgufTensor* tensor,
                         Find(name, {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows),
                                     static_cast<uint64_t>(count)}));
  out.resize(static_cast<size_t>(count));
  std::vector<RowRange> ranges;
  for (std::unique_ptr<Weight>& weight : out) ranges.push_back({rows, &weight});
  return Split(*tensor, ranges);
}

absl::StatusOr<std::vector<float>> TensorLoader::HostVector(const std::string& name, int size) {
  BATON_ASSIGN_OR_RETURN(const GgufTensor* tensor, Find(name, {static_cast<uint64_t>(size)}));
  BATON_RETURN_IF_ERROR(CheckFloats(*tensor));
  return Floats(*file_.Hold(*tensor));
}

absl::Status TensorLoader::Vector(const std::string& name, int size, WeightVector& out) {
  BATON_ASSIGN_OR_RETURN(const GgufTensor* tensor, Find(name, {static_cast<uint64_t>(size)}));
  return Upload(*tensor, out);
}

absl::Status TensorLoader::VectorsIfPresent(const std::string& name, int count, int size,
                                            WeightVector& out) {
  if (!Has(name)) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const GgufTensor* tensor,
                         Find(name, {static_cast<uint64_t>(size), static_cast<uint64_t>(count)}));
  return Upload(*tensor, out);
}

absl::Status TensorLoader::CheckNoneLeft(const std::string& architecture) const {
  for (const GgufTensor& tensor : file_.tensors()) {
    if (taken_.contains(tensor.name)) continue;
    return InFile(absl::UnimplementedError(absl::StrCat(
        "tensor '", tensor.name, "' is not part of the supported models of architecture '",
        architecture, "'")));
  }
  return absl::OkStatus();
}

absl::StatusOr<const GgufTensor*> TensorLoader::Find(const std::string& name,
                                                     const std::vector<uint64_t>& dims) {
  const GgufTensor* tensor = file_.FindTensor(name);
  if (tensor == nullptr) {
    return InFile(absl::InvalidArgumentError(absl::StrCat("tensor '", name, "' is missing")));
  }
  if (tensor->dims != dims) {
    return InFile(absl::InvalidArgumentError(
        absl::StrCat("tensor '", name, "' has dimensions ", absl::StrJoin(tensor->dims, " x "),
                     "; the metadata requires ", absl::StrJoin(dims, " x "))));
  }
  taken_.insert(name);
  return tensor;
}

absl::Status TensorLoader::Split(const GgufTensor& tensor, absl::Span<const RowRange> ranges) {
  std::optional<HeldTensor> held;  // bytes that are made live as long
  if (!measures_) held.emplace(file_.Hold(tensor));
  const size_t row_bytes = tensor.size_bytes() / (ElementsOf(tensor) / tensor.dims[0]);
  size_t first = 0;
  for (const RowRange& range : ranges) {
    const auto count = static_cast<size_t>(range.rows);
    GgufTensor part = {
        .name = tensor.name, .type = tensor.type, .dims = {tensor.dims[0], count}, .data = {}};
    const absl::StatusOr<uint64_t> bytes = backend_.WeightBytes(part);
    if (!bytes.ok()) return InFile(bytes.status());
    bytes_ += *bytes;
    if (measures_) continue;
    part.data = (*held)->data.subspan(first * row_bytes, count * row_bytes);
    absl::StatusOr<std::unique_ptr<Weight>> weight = backend_.LoadWeight(part);
    if (!weight.ok()) return InFile(weight.status());
    *range.out = *std::move(weight);
    first += count;
  }
  return absl::OkStatus();
}

absl::Status TensorLoader::Upload(const GgufTensor& tensor, WeightVector& out) {
  BATON_RETURN_IF_ERROR(CheckFloats(tensor));
  const size_t bytes = ElementsOf(tensor) * sizeof(float);
  bytes_ += bytes;
  if (measures_) return absl::OkStatus();
  const std::vector<float> values = Floats(*file_.Hold(tensor));
  BATON_ASSIGN_OR_RETURN(BackendBuffer buffer, backend_.Allocate(bytes));
  backend_.Upload(values.data(), bytes, buffer.data());
  out = WeightVector(std::move(buffer));
  return absl::OkStatus();
}

absl::Status TensorLoader::CheckFloats(const GgufTensor& tensor) const {
  if (tensor.type == GgmlType::kF32 || tensor.type == GgmlType::kF16 ||
      tensor.type == GgmlType::kBf16) {
    return absl::OkStatus();
  }
  return InFile(absl::UnimplementedError(
      absl::StrCat("tensor '", tensor.name, "': type ", GgmlTypeName(tensor.type),
                   " is not supported for a vector; supported are F32, F16 and BF16")));
}

absl::Status TensorLoader::InFile(const absl::Status& status) const {
  return absl::Status(status.code(), absl::StrCat(file_.path(), ": ", status.message()));
}

}  // namespace baton
