// The device that does the arithmetic: CPU or CUDA, chosen at start, behind one interface.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>

#include "absl/status/statusor.h"

namespace baton {

// Memory of a backend, given back when destroyed.
class BackendBuffer {
 public:
  BackendBuffer() = default;
  BackendBuffer(uint8_t* data, size_t bytes, std::function<void(uint8_t*)> free)
      : data_(data, std::move(free)), bytes_(bytes) {}
  uint8_t* data() const { return data_.get(); }
  size_t size_bytes() const { return bytes_; }

 private:
  std::unique_ptr<uint8_t, std::function<void(uint8_t*)>> data_;
  size_t bytes_ = 0;
};

class Backend;

}  // namespace baton
