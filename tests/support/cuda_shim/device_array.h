// A test's array in device memory, poisoned or a copy of host memory. The destructor frees it.
// Works on the shim and on a GPU (test_device.h).
#pragma once

#include <cuda_runtime.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "test_device.h"

namespace baton {

template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(size_t size) : size_(size) {
    const size_t bytes = std::max<size_t>(size * sizeof(T), 1);
    BATON_CHECK(cudaMalloc(&data_, bytes) == cudaSuccess, "the device must have the memory");
    PoisonDeviceMemory(data_, bytes);
  }
  explicit DeviceArray(const std::vector<T>& host) : DeviceArray(host.size()) { Upload(host); }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), size_(other.size_) {}
  ~DeviceArray() { BATON_CHECK(cudaFree(data_) == cudaSuccess, "memory that cudaMalloc gave"); }

  T* data() const { return data_; }
  size_t size() const { return size_; }
  void Upload(const std::vector<T>& host) {
    BATON_CHECK(host.size() == size_, "both arrays must have one size");
    BATON_CHECK(
        cudaMemcpy(data_, host.data(), size_ * sizeof(T), cudaMemcpyHostToDevice) == cudaSuccess,
        "the upload must succeed");
    // The streams of a test would not wait for the copy.
    BATON_CHECK(cudaDeviceSynchronize() == cudaSuccess, "the upload must succeed");
  }
  std::vector<T> Download() const {
    std::vector<T> host(size_);
    BATON_CHECK(
        cudaMemcpy(host.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost) == cudaSuccess,
        "the download must succeed");
    return host;
  }

 private:
  T* data_ = nullptr;
  size_t size_;
};

}  // namespace baton
