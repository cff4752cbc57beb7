#include "tests/common/gguf/allocation_counter.h"

#include <atomic>
#include <cstdlib>
#include <new>

namespace {
std::atomic<size_t> allocated_bytes{0};
}  // namespace

// The array and nothrow forms of operator new call this one.
void* operator new(size_t size) {
  allocated_bytes += size;
  void* memory = std::malloc(size == 0 ? 1 : size);
  if (memory == nullptr) std::abort();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }

namespace baton {

size_t AllocatedBytes() { return allocated_bytes; }

}  // namespace baton
