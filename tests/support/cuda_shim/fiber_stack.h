// The stacks of fibers, and what the address sanitizer must know of a switch between them.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#define BATON_SHIM_NO_ADDRESS_SANITIZER __attribute__((no_sanitize_address))
#else
#define BATON_SHIM_NO_ADDRESS_SANITIZER
#endif

namespace baton::cuda_shim {

struct SanitizerStack {
  const void* bottom = nullptr;
  size_t bytes = 0;
};

#if defined(__SANITIZE_ADDRESS__)
inline void SwitchStarts(void** own, const SanitizerStack& to) {
  __sanitizer_start_switch_fiber(own, to.bottom, to.bytes);
}
inline void SwitchEnds(void* own, SanitizerStack* from) {
  __sanitizer_finish_switch_fiber(own, from != nullptr ? &from->bottom : nullptr,
                                  from != nullptr ? &from->bytes : nullptr);
}
inline void PoisonAddresses(const void* data, size_t bytes) {
  __asan_poison_memory_region(data, bytes);
}
inline void UnpoisonAddresses(const void* data, size_t bytes) {
  __asan_unpoison_memory_region(data, bytes);
}
#else
inline void SwitchStarts(void**, const SanitizerStack&) {}
inline void SwitchEnds(void*, SanitizerStack*) {}
inline void PoisonAddresses(const void*, size_t) {}
inline void UnpoisonAddresses(const void*, size_t) {}
#endif

// Memory that grows downwards from top(), with a page below it that no one may touch.
class FiberStack {
 public:
  // `index` is the stack's number in its pool. It shifts the stack's top, because tops with equal
  // page offsets would compete for a few places in the CPU's caches.
  explicit FiberStack(size_t index);
  ~FiberStack();
  FiberStack(const FiberStack&) = delete;
  FiberStack& operator=(const FiberStack&) = delete;

  void* top() const { return bottom_ + size() - colour_; }
  size_t usable_bytes() const { return size() - colour_; }
  static constexpr size_t size() { return 128 * 1024; }
  SanitizerStack bounds() const { return {bottom_, size()}; }

 private:
  char* mapping_;
  char* bottom_;
  size_t colour_;  // bytes by which the top is shifted
};

// A pool of stacks, which makes stacks as they are needed and uses them again.
class FiberStackPool {
 public:
  FiberStack* Take();
  void GiveBack(FiberStack* stack) { free_.push_back(stack); }

 private:
  std::vector<std::unique_ptr<FiberStack>> stacks_;
  std::vector<FiberStack*> free_;
};

}  // namespace baton::cuda_shim
