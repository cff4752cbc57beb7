#include "common/backend/cpu/isa.h"

#include <cpuid.h>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

// g++ 12 does not know the feature by name.
bool HasAvxVnni() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  constexpr unsigned kAvxVnniBit = 1u << 4;  // CPUID 7.1, EAX
  return __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx) != 0 && (eax & kAvxVnniBit) != 0;
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
      return __builtin_cpu_supports("x86-64-v3");
    case CpuIsa::kAvx2Vnni:
      return __builtin_cpu_supports("x86-64-v3") && HasAvxVnni();
    case CpuIsa::kAvx512:
      return __builtin_cpu_supports("x86-64-v4") && __builtin_cpu_supports("avx512vnni");
  }
  return false;
}

CpuIsa BestCpuIsa() {
  for (const CpuIsa isa : {CpuIsa::kAvx512, CpuIsa::kAvx2Vnni, CpuIsa::kAvx2}) {
    if (CpuHas(isa)) return isa;
  }
  return CpuIsa::kPortable;
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
