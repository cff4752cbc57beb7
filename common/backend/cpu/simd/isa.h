// The instruction sets that the CPU kernels are compiled for, and the selection of one of them.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace baton {

// kPortable: the first x86-64. kAvx2: x86-64-v3, with FMA and F16C. kAvx2Vnni: x86-64-v3 with
// AVX-VNNI. kAvx512: x86-64-v4 (F, BW, CD, DQ, VL) with VNNI.
enum class CpuIsa { kPortable, kAvx2, kAvx2Vnni, kAvx512 };
inline constexpr CpuIsa kAllCpuIsas[] = {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx2Vnni,
                                         CpuIsa::kAvx512};

const char* CpuIsaName(CpuIsa isa);
bool CpuHas(CpuIsa isa);
CpuIsa BestCpuIsa();  // the best one that this CPU has
// "auto" is the best that this CPU has, "avx2" the better of its two AVX2 sets; other words are
// CpuIsaName. INVALID_ARGUMENT for an unknown word, UNIMPLEMENTED if the CPU lacks the set.
absl::StatusOr<CpuIsa> ParseCpuIsa(const std::string& name);

// clang, which takes the width from the vectors, would leave out the whole attribute.
#if defined(__clang__)
#define BATON_AVX512_TARGET "arch=x86-64-v4"
#else
#define BATON_AVX512_TARGET "arch=x86-64-v4,prefer-vector-width=512"
#endif

// Kernel::Run(args...) compiled three times. Kernel::Run and all that it calls must be
// always_inline, because they take on the target of the function that they are inlined into. The
// arithmetic of a kernel has one order, so the bits are the same.
template <class Kernel, class... Args>
[[gnu::noinline]] void RunPortable(const Args&... args) {
  Kernel::Run(args...);
}
template <class Kernel, class... Args>
[[gnu::noinline, gnu::target("arch=x86-64-v3")]] void RunAvx2(const Args&... args) {
  Kernel::Run(args...);
}
template <class Kernel, class... Args>
[[gnu::noinline, gnu::target(BATON_AVX512_TARGET)]] void RunAvx512(const Args&... args) {
  Kernel::Run(args...);
}

// Runs the kernel with the instruction set. REQUIRES: CpuHas(isa).
template <class Kernel, class... Args>
void RunOn(CpuIsa isa, const Args&... args) {
  switch (isa) {
    case CpuIsa::kPortable:
      return RunPortable<Kernel>(args...);
    case CpuIsa::kAvx2:
    case CpuIsa::kAvx2Vnni:
      return RunAvx2<Kernel>(args...);
    case CpuIsa::kAvx512:
      return RunAvx512<Kernel>(args...);
  }
}

}  // namespace baton
