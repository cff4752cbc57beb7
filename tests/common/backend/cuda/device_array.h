// Device memory with a test's data.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <utility>
#include <vector>

#include "common/base/check.h"

namespace baton {

// Freed when destroyed.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(const std::vector<T>& values) : size_(values.size()) {
    BATON_CHECK(cudaMalloc(&data_, size_ * sizeof(T)) == cudaSuccess, "device memory");
    Set(values);
  }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  ~DeviceArray() { cudaFree(data_); }

  T* data() const { return data_; }
  // REQUIRES: of the same size.
  void Set(const std::vector<T>& values) {
    BATON_CHECK(values.size() == size_, "values of an array");
    BATON_CHECK(cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice) ==
                    cudaSuccess,
                "copy to the device");
  }
  // After everything enqueued so far.
  std::vector<T> Get() const {
    std::vector<T> values(size_);
    BATON_CHECK(cudaDeviceSynchronize() == cudaSuccess, "kernels");
    BATON_CHECK(cudaMemcpy(values.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost) ==
                    cudaSuccess,
                "copy from the device");
    return values;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

}  // namespace baton
