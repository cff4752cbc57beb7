#include "common/backend/cpu/machine/memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr size_t kHugePageBytes = size_t{2} << 20;
constexpr size_t kSlabBytes = size_t{64} << 20;
constexpr size_t kLargeBytes = kSlabBytes / 4;  // a buffer of this size has a mapping of its own
constexpr size_t kAlignment = 64;

size_t RoundUp(size_t value, size_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// Maps whole pages, beginning at a huge page's boundary. Null when there is no memory.
uint8_t* MapHugePages(size_t bytes) {
  const size_t mapped = bytes + kHugePageBytes;
  if (mapped < bytes) return nullptr;
  void* data =
      mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  if (data == MAP_FAILED) return nullptr;
  auto* const start = static_cast<uint8_t*>(data);
  const size_t before = RoundUp(reinterpret_cast<uintptr_t>(start), kHugePageBytes) -
                        reinterpret_cast<uintptr_t>(start);
  if (before > 0) munmap(start, before);
  munmap(start + before + bytes, kHugePageBytes - before);
  // madvise is advice only: if it fails, small pages hold the same bytes.
  (void)madvise(start + before, bytes, MADV_HUGEPAGE);
  return start + before;
}

// Gives back the whole pages inside the range. Pages that neighbours share stay.
void ReleasePages(uint8_t* data, size_t bytes) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const uintptr_t first = RoundUp(reinterpret_cast<uintptr_t>(data), page);
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / page * page;
  if (first < end) (void)madvise(reinterpret_cast<void*>(first), end - first, MADV_DONTNEED);
}

}  // namespace

CpuMemory::~CpuMemory() {
  for (uint8_t* slab : slabs_) munmap(slab, kSlabBytes);
}

absl::StatusOr<BackendBuffer> CpuMemory::Allocate(size_t bytes) {
  const auto exhausted = [&] {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes"));
  };
  if (bytes >= kLargeBytes) {
    const size_t size = RoundUp(bytes, static_cast<size_t>(sysconf(_SC_PAGESIZE)));
    uint8_t* data = size < bytes ? nullptr : MapHugePages(size);
    if (data == nullptr) return exhausted();
    return BackendBuffer(data, bytes, [size](uint8_t* address) { munmap(address, size); });
  }
  const size_t size = RoundUp(std::max<size_t>(bytes, 1), kAlignment);
  if (slabs_.empty() || size > kSlabBytes - slab_used_) {
    uint8_t* slab = MapHugePages(kSlabBytes);
    if (slab == nullptr) return exhausted();
    slabs_.push_back(slab);
    slab_used_ = 0;
  }
  uint8_t* data = slabs_.back() + slab_used_;
  slab_used_ += size;
  return BackendBuffer(data, bytes, [size](uint8_t* address) { ReleasePages(address, size); });
}

}  // namespace baton
