#include "tests/support/cuda_shim/fiber_stack.h"

#include <sys/mman.h>

#include "common/base/check.h"

namespace baton::cuda_shim {

constexpr size_t kGuardBytes = 4096;

FiberStack::FiberStack(size_t index) : colour_(index * 7 % 64 * 64) {
  void* const mapping = mmap(nullptr, kGuardBytes + size(), PROT_READ | PROT_WRITE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  BATON_CHECK(mapping != MAP_FAILED, "memory for a fiber's stack");
  mapping_ = static_cast<char*>(mapping);
  bottom_ = mapping_ + kGuardBytes;
  BATON_CHECK(mprotect(mapping_, kGuardBytes, PROT_NONE) == 0, "a page to stop overflows");
}

FiberStack::~FiberStack() { munmap(mapping_, kGuardBytes + size()); }

FiberStack* FiberStackPool::Take() {
  if (free_.empty()) {
    stacks_.push_back(std::make_unique<FiberStack>(stacks_.size()));
    return stacks_.back().get();
  }
  FiberStack* const stack = free_.back();
  free_.pop_back();
  return stack;
}

}  // namespace baton::cuda_shim
