#include "tests/support/allocation_counter.h"

#include <malloc.h>

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<size_t> allocated_bytes{0};
std::atomic<size_t> live_bytes{0};
std::atomic<size_t> peak_bytes{0};

void Free(void* memory) {
  live_bytes -= malloc_usable_size(memory);
  std::free(memory);
}

// Counts what was asked for, and what it takes.
void* Counted(size_t size, void* memory) {
  allocated_bytes += size;
  if (memory == nullptr) std::abort();
  const size_t usable = malloc_usable_size(memory);
  const size_t live = live_bytes.fetch_add(usable) + usable;
  size_t peak = peak_bytes.load();
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live)) continue;
  return memory;
}
}  // namespace

// The array and nothrow forms of operator new call these.
void* operator new(size_t size) { return Counted(size, std::malloc(size == 0 ? 1 : size)); }
void* operator new(size_t size, std::align_val_t alignment) {
  const auto multiple = static_cast<size_t>(alignment);
  const size_t rounded = (size + multiple - 1) / multiple * multiple;
  return Counted(size, std::aligned_alloc(multiple, rounded == 0 ? multiple : rounded));
}
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { Free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { Free(memory); }

namespace baton {

size_t AllocatedBytes() { return allocated_bytes; }
size_t LiveBytes() { return live_bytes; }
size_t PeakBytes() { return peak_bytes; }
void ResetPeakBytes() { peak_bytes = live_bytes.load(); }

}  // namespace baton
