// The memory that cudaMalloc gives out, which only kernels and copies may touch: the host's threads
// end with SIGSEGV there, as they would with a GPU.
//
// Under a sanitizer it is the host's own, whose ends the sanitizer watches instead.
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

  // Poisoned; null when more than `most` bytes would be in use.
  void* Allocate(size_t bytes, size_t most);
  // False where Allocate did not give it.
  bool Free(void* data);
  bool Contains(const void* data, size_t bytes);
  size_t used_bytes();

 private:
  friend class DeviceAccess;
  DeviceMemory();
  uint8_t* Take(size_t bytes);
  void GiveBack(uint8_t* data, size_t bytes);
  void SetAccess(bool may) const;

  std::mutex mutex_;
  size_t used_ = 0;
  std::map<const uint8_t*, size_t> sizes_;
  uint8_t* begin_ = nullptr;         // of the address space for all of it; null: there is none
  uint8_t* end_ = nullptr;           // of what was ever given out
  std::map<uint8_t*, size_t> free_;  // pieces before end_, no two of them next to each other
  int accesses_ = 0;
};

// While one lives, device memory can be touched: what streams do has one.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

}  // namespace baton::cuda_shim
