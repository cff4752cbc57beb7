#include "tests/support/cuda_shim/device_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <new>

#include "common/base/check.h"
#include "tests/support/cuda_shim/fibers.h"

namespace baton::cuda_shim {
namespace {

constexpr std::align_val_t kAlignment{kMemoryAlignment};
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kProtected = false;
#else
constexpr bool kProtected = true;
#endif
// Bytes of a huge page. Memory in huge pages is much faster, since it needs fewer address
// translations.
constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kAddressSpace = size_t{1} << 38;

// The first address at or after `at` where a page begins.
uint8_t* ToPage(uint8_t* at) {
  const size_t over = reinterpret_cast<uintptr_t>(at) % kHugePageBytes;
  return over == 0 ? at : at + (kHugePageBytes - over);
}

}  // namespace

DeviceMemory& DeviceMemory::Get() {
  static auto* const memory = new DeviceMemory;  // never destroyed: tests may free until their end
  return *memory;
}

DeviceMemory::DeviceMemory() {
  if (!kProtected) return;
  void* const space =
      mmap(nullptr, kAddressSpace, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  BATON_CHECK(space != MAP_FAILED, "address space for device memory");
  madvise(space, kAddressSpace, MADV_HUGEPAGE);
  begin_ = end_ = ToPage(static_cast<uint8_t*>(space));
}

void* DeviceMemory::Allocate(size_t bytes, size_t most) {
  const std::lock_guard lock(mutex_);
  if (used_ > most || bytes > most - used_) return nullptr;
  uint8_t* const data = Take(bytes);
  if (kProtected && accesses_ == 0) SetAccess(true);
  std::memset(data, kPoison, bytes);
  if (kProtected && accesses_ == 0) SetAccess(false);
  sizes_[data] = bytes;
  used_ += bytes;
  return data;
}

bool DeviceMemory::Free(void* data) {
  const std::lock_guard lock(mutex_);
  const auto found = sizes_.find(static_cast<const uint8_t*>(data));
  if (found == sizes_.end()) return false;
  const size_t bytes = found->second;
  used_ -= bytes;
  sizes_.erase(found);
  GiveBack(static_cast<uint8_t*>(data), bytes);
  return true;
}

bool DeviceMemory::Contains(const void* data, size_t bytes) {
  const std::lock_guard lock(mutex_);
  const auto* const first = static_cast<const uint8_t*>(data);
  auto next = sizes_.upper_bound(first);
  if (next == sizes_.begin()) return false;
  --next;
  return first + bytes <= next->first + next->second;
}

size_t DeviceMemory::used_bytes() {
  const std::lock_guard lock(mutex_);
  return used_;
}

DeviceMemory::Range DeviceMemory::range() const {
  if (!kProtected) return {};
  return {begin_, kAddressSpace - kHugePageBytes};
}

// Takes the first free piece that is large enough, else memory behind all that was ever given.
uint8_t* DeviceMemory::Take(size_t bytes) {
  if (!kProtected) return static_cast<uint8_t*>(::operator new(bytes, kAlignment));
  bytes = (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
  const auto piece = std::find_if(free_.begin(), free_.end(),
                                  [bytes](const auto& free) { return free.second >= bytes; });
  if (piece == free_.end()) {
    uint8_t* const data = end_;
    end_ += bytes;
    BATON_CHECK(end_ <= begin_ + kAddressSpace - kHugePageBytes, "address space for device memory");
    if (accesses_ > 0) SetAccess(true);
    return data;
  }
  const auto [data, size] = *piece;
  free_.erase(piece);
  if (size > bytes) free_[data + bytes] = size - bytes;
  return data;
}

void DeviceMemory::GiveBack(uint8_t* data, size_t bytes) {
  if (!kProtected) return ::operator delete(data, kAlignment);
  bytes = (bytes + kMemoryAlignment - 1) / kMemoryAlignment * kMemoryAlignment;
  auto next = free_.upper_bound(data);
  if (next != free_.end() && data + bytes == next->first) {
    bytes += next->second;
    next = free_.erase(next);
  }
  if (next != free_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == data) {
      data = before->first;
      bytes += before->second;
      free_.erase(before);
    }
  }
  if (data + bytes == end_) {
    // Shrinks the range, because changing its access takes longer with more pages.
    end_ = data;
    const size_t left = static_cast<size_t>(ToPage(data + bytes) - ToPage(data));
    if (left == 0) return;
    BATON_CHECK(mprotect(ToPage(data), left, PROT_NONE) == 0, "access to device memory");
    madvise(ToPage(data), left, MADV_DONTNEED);
  } else {
    free_[data] = bytes;
  }
}

void DeviceMemory::SetAccess(bool may) const {
  if (end_ == begin_) return;
  const int access = may ? PROT_READ | PROT_WRITE : PROT_NONE;
  BATON_CHECK(mprotect(begin_, static_cast<size_t>(ToPage(end_) - begin_), access) == 0,
              "access to device memory");
}

DeviceAccess::DeviceAccess() {
  if (!kProtected) return;
  DeviceMemory& memory = DeviceMemory::Get();
  const std::lock_guard lock(memory.mutex_);
  if (memory.accesses_++ == 0) memory.SetAccess(true);
}

DeviceAccess::~DeviceAccess() {
  if (!kProtected) return;
  DeviceMemory& memory = DeviceMemory::Get();
  const std::lock_guard lock(memory.mutex_);
  if (--memory.accesses_ == 0) memory.SetAccess(false);
}

}  // namespace baton::cuda_shim
