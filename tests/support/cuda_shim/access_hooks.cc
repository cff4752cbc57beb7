// The functions that g++ calls before each access of code that it compiles with -fsanitize=thread,
// in place of ThreadSanitizer's library.
#include <cstddef>
#include <cstdint>

#include "tests/support/cuda_shim/access_counter.h"
#include "tests/support/cuda_shim/race_detector.h"

#if !defined(__SANITIZE_THREAD__)

using baton::cuda_shim::AccessCounts;
using baton::cuda_shim::AccessKind;
using baton::cuda_shim::RaceDetector;

namespace {

template <AccessKind kKind>
inline void Note(const void* at, size_t bytes, const void* code) {
  constexpr bool kReads = kKind == AccessKind::kRead;
  RaceDetector::Get().Access(kReads ? RaceDetector::Kind::kRead : RaceDetector::Kind::kWrite, at,
                             bytes, code);
  if (AccessCounts* const counts = AccessCounts::Active()) [[unlikely]] {
    counts->Access(kKind, at, bytes, code);
  }
}

}  // namespace

#define BATON_HOOKS(BYTES)                                            \
  void __tsan_read##BYTES(void* at) {                                 \
    Note<AccessKind::kRead>(at, BYTES, __builtin_return_address(0));  \
  }                                                                   \
  void __tsan_write##BYTES(void* at) {                                \
    Note<AccessKind::kWrite>(at, BYTES, __builtin_return_address(0)); \
  }

extern "C" {
BATON_HOOKS(1)
BATON_HOOKS(2)
BATON_HOOKS(4)
BATON_HOOKS(8)
BATON_HOOKS(16)
void __tsan_read_range(void* at, size_t bytes) {
  Note<AccessKind::kRead>(at, bytes, __builtin_return_address(0));
}
void __tsan_write_range(void* at, size_t bytes) {
  Note<AccessKind::kWrite>(at, bytes, __builtin_return_address(0));
}
void __tsan_vptr_update(void** /*at*/, void* /*value*/) {}
void __tsan_init() {}

// Hooks for the host's code in the same sources: static variables and shared pointers.
uint8_t __tsan_atomic8_load(const volatile uint8_t* at, int /*order*/) {
  return __atomic_load_n(at, __ATOMIC_SEQ_CST);
}
uint32_t __tsan_atomic32_fetch_add(volatile uint32_t* at, uint32_t value, int /*order*/) {
  return __atomic_fetch_add(at, value, __ATOMIC_SEQ_CST);
}
uint32_t __tsan_atomic32_fetch_sub(volatile uint32_t* at, uint32_t value, int /*order*/) {
  return __atomic_fetch_sub(at, value, __ATOMIC_SEQ_CST);
}
}

#endif
