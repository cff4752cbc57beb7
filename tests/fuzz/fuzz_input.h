// Bytes of a fuzzer's input, as numbers; zeros when it is used up.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>

namespace baton {

class FuzzInput {
 public:
  FuzzInput(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool empty() const { return size_ == 0; }
  uint8_t Byte() {
    if (size_ == 0) return 0;
    --size_;
    return *data_++;
  }
  int Below(int end) { return Byte() % end; }
  std::string Bytes(size_t count) {
    count = std::min(count, size_);
    std::string bytes(reinterpret_cast<const char*>(data_), count);
    data_ += count;
    size_ -= count;
    return bytes;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

}  // namespace baton
