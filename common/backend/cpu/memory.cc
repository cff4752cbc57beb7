#include "common/backend/cpu/memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton {

absl::StatusOr<BackendBuffer> AllocateCpuMemory(size_t bytes) {
  const size_t size = std::max<size_t>(bytes, 1);
  void* data =
      mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, /*fd=*/-1, 0);
  if (data == MAP_FAILED) {
    return absl::ResourceExhaustedError(absl::StrCat("no memory for ", bytes, " bytes"));
  }
  madvise(data, size, MADV_HUGEPAGE);
  return BackendBuffer(static_cast<uint8_t*>(data), bytes,
                       [size](uint8_t* address) { munmap(address, size); });
}

}  // namespace baton
