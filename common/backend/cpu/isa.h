// The instruction sets that the CPU kernels are compiled for, and the choice among them.
#pragma once

#include <string>

#include "absl/status/statusor.h"

namespace baton {

// kPortable: x86-64 as it began. kAvx2: with FMA and F16C (x86-64-v3). kAvx2Vnni: with AVX-VNNI
// too. kAvx512: F, BW, CD, DQ, VL (x86-64-v4) and VNNI.
enum class CpuIsa { kPortable, kAvx2, kAvx2Vnni, kAvx512 };
inline constexpr CpuIsa kAllCpuIsas[] = {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx2Vnni,
                                         CpuIsa::kAvx512};

const char* CpuIsaName(CpuIsa isa);
bool CpuHas(CpuIsa isa);
CpuIsa BestCpuIsa();  // of those that this CPU has
// "auto" is the best that this CPU has, "avx2" the better of its two; else CpuIsaName.
// INVALID_ARGUMENT for another word, UNIMPLEMENTED for what the CPU lacks.
absl::StatusOr<CpuIsa> ParseCpuIsa(const std::string& name);

// Kernel::Run(args...) compiled three times. Kernel::Run and all it calls must be always_inline:
// they take on the target of the function they end in. The kernels' arithmetic has one order, so
// the bits are the same.
template <class Kernel, class... Args>
[[gnu::noinline]] void RunPortable(const Args&... args) {
  Kernel::Run(args...);
}
template <class Kernel, class... Args>
[[gnu::noinline, gnu::target("arch=x86-64-v3")]] void RunAvx2(const Args&... args) {
  Kernel::Run(args...);
}
template <class Kernel, class... Args>
[[gnu::noinline, gnu::target("arch=x86-64-v4,prefer-vector-width=512")]] void RunAvx512(
    const Args&... args) {
  Kernel::Run(args...);
}

// REQUIRES: CpuHas(isa).
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
