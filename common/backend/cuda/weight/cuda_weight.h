// A weight matrix in device memory, laid out as weight_layout.h says.
#pragma once

#include <cstddef>
#include <memory>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "common/backend/backend.h"
#include "common/backend/cuda/device/operands.h"
#include "common/backend/cuda/weight/weight_upload.h"
#include "common/gguf/gguf_file.h"

namespace baton {

class CudaWeight final : public Weight {
 public:
  // Gives zeroed device memory, aligned to at least 16 bytes.
  using Allocate = absl::FunctionRef<absl::StatusOr<BackendBuffer>(size_t bytes)>;

  // Copies the tensor to the device by `upload`; its bytes are not needed after the return.
  // UNIMPLEMENTED names
  // the tensor, its type and the supported types, INVALID_ARGUMENT names the tensor and its shape,
  // or says that it is damaged.
  // Returns the errors of `allocate` and of WeightUpload::Copy.
  static absl::StatusOr<std::unique_ptr<CudaWeight>> Load(const GgufTensor& tensor,
                                                          Allocate allocate, WeightUpload& upload);
  // The bytes that Load takes for such a tensor, whose own bytes are not read; or Load's error.
  static absl::StatusOr<size_t> DeviceBytes(const GgufTensor& tensor);

  size_t size_bytes() const override { return data_.size_bytes(); }
  CudaElement element() const { return element_; }
  // A view of the weight; valid while this weight lives.
  CudaMatrix Matrix() const {
    return {.data = data_.data(), .element = element_, .rows = rows(), .columns = columns()};
  }

 private:
  CudaWeight(int rows, int columns, CudaElement element, BackendBuffer data)
      : Weight(rows, columns), element_(element), data_(std::move(data)) {}

  CudaElement element_;
  BackendBuffer data_;
};

// A view of a weight that CudaWeight::Load gave.
inline CudaMatrix MatrixOf(const Weight& weight) {
  return static_cast<const CudaWeight&>(weight).Matrix();
}

}  // namespace baton
