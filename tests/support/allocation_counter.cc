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
}  // namespace

// The array and nothrow forms of operator new call this one.
void* operator new(size_t size) {
  allocated_bytes += size;
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) std::abort();
  const size_t usable = malloc_usable_size(memory);
  const size_t live = live_bytes.fetch_add(usable) + usable;
  size_t peak = peak_bytes.load();
  while (live > peak && !peak_bytes.compare_exchange_weak(peak, live)) continue;
  return memory;
}
void operator delete(void* memory) noexcept { Free(memory); }
void operator delete(void* memory, size_t) noexcept { Free(memory); }

namespace baton {

size_t AllocatedBytes() { return allocated_bytes; }
size_t LiveBytes() { return live_bytes; }
size_t PeakBytes() { return peak_bytes; }
void ResetPeakBytes() { peak_bytes = live_bytes.load(); }

}  // namespace baton
