// The memory that cudaMalloc gives. Only kernels and copies may touch it: a host thread that does
// ends with SIGSEGV, as it would with a GPU.
//
// Under a sanitizer it is host memory, whose bounds the sanitizer watches instead.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>

namespace baton::cuda_shim {

inline constexpr size_t kMemoryAlignment = 256;

// Thread-safe.
class DeviceMemory {
 public:
  static DeviceMemory& Get();

  // Returns poisoned memory; null if more than `most` bytes would be in use.
  void* Allocate(size_t bytes, size_t most);
  // Returns false if Allocate did not give `data`.
  bool Free(void* data);
  bool Contains(const void* data, size_t bytes);
  size_t used_bytes();
  // All addresses that Allocate gives come from there; empty under a sanitizer.
  struct Range {
    const uint8_t* begin = nullptr;
    size_t bytes = 0;
  };
  Range range() const;

 private:
  friend class DeviceAccess;
  DeviceMemory();
  uint8_t* Take(size_t bytes);
  void GiveBack(uint8_t* data, size_t bytes);
  void SetAccess(bool may) const;

  std::mutex mutex_;
  size_t used_ = 0;
  std::map<const uint8_t*, size_t> sizes_;
  uint8_t* begin_ = nullptr;         // first address of the reserved address space
  uint8_t* end_ = nullptr;           // end of the addresses that were ever given
  std::map<uint8_t*, size_t> free_;  // pieces before end_, no two of them next to each other
  int accesses_ = 0;
};

// Makes device memory accessible as long as it lives. The operations of streams hold one.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace baton::cuda_shim
