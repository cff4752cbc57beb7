#include "common/backend/cpu/simd/isa.h"

#include <cpuid.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

// g++ 12 does not know AVX-VNNI by name, so CPUID is read here.
bool HasAvxVnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kAvxVnniBit = 1u << 4;  // CPUID 7.1, EAX
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kAvxVnniBit) != 0;
}

// Whether the CPU has the features of x86-64-v3. clang 14 does not know the x86-64 levels by name,
// nor the three features that are read here. The compiler's own test has seen that the system keeps
// the registers.
bool HasLevel3() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kMovbeAndF16c = (1u << 22) | (1u << 29);  // CPUID 1, ECX
  if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0 || (~ecx & kMovbeAndF16c) != 0) return false;
  constexpr unsigned kLzcnt = 1u << 5;  // CPUID 0x80000001, ECX
  if (__get_cpuid(0x80000001, &eax, &ebx, &ecx, &edx) == 0 || (ecx & kLzcnt) == 0) return false;
  return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("bmi") &&
         __builtin_cpu_supports("bmi2") && __builtin_cpu_supports("fma");
}
bool HasLevel4() {
  return HasLevel3() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
         __builtin_cpu_supports("avx512vl");
}

}  // namespace

const char* CpuIsaName(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kPortable:
      return "portable";
    case CpuIsa::kAvx2:
      return "avx2-no-vnni";
    case CpuIsa::kAvx2Vnni:
      return "avx2-vnni";
    case CpuIsa::kAvx512:
      return "avx512";
  }
  return "";
}

bool CpuHas(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kPortable:
      return true;
    case CpuIsa::kAvx2:
      return HasLevel3();
    case CpuIsa::kAvx2Vnni:
      return HasLevel3() && HasAvxVnni();
    case CpuIsa::kAvx512:
      return HasLevel4() && __builtin_cpu_supports("avx512vnni");
  }
  return false;
}

CpuIsa BestCpuIsa() {
  // In a virtual machine the hypervisor answers CPUID, which takes it microseconds.
  static const CpuIsa best = [] {
    for (const CpuIsa isa : {CpuIsa::kAvx512, CpuIsa::kAvx2Vnni, CpuIsa::kAvx2}) {
      if (CpuHas(isa)) return isa;
    }
    return CpuIsa::kPortable;
  }();
  return best;
}

absl::StatusOr<CpuIsa> ParseCpuIsa(const std::string& name) {
  if (name == "auto") return BestCpuIsa();
  if (name == "avx2" && CpuHas(CpuIsa::kAvx2Vnni)) return CpuIsa::kAvx2Vnni;
  if (name == "avx2" && CpuHas(CpuIsa::kAvx2)) return CpuIsa::kAvx2;
  bool known = name == "avx2";
  for (const CpuIsa isa : kAllCpuIsas) {
    if (name != CpuIsaName(isa)) continue;
    if (CpuHas(isa)) return isa;
    known = true;
  }
  if (known) {
    return absl::UnimplementedError(
        absl::StrCat("--cpu-isa ", name, ": this CPU does not have it; use auto"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--cpu-isa '", name,
                   "': must be auto, avx512, avx2 (or avx2-vnni, avx2-no-vnni) or portable"));
}

}  // namespace baton
