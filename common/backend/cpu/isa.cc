#include "common/backend/cpu/isa.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace baton {

const char* CpuIsaName(CpuIsa isa) {
  switch (isa) {
    case CpuIsa::kPortable:
      return "portable";
    case CpuIsa::kAvx2:
      return "avx2";
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
    case CpuIsa::kAvx512:
      return __builtin_cpu_supports("x86-64-v4");
  }
  return false;
}

absl::StatusOr<CpuIsa> ParseCpuIsa(const std::string& name) {
  for (const CpuIsa isa : {CpuIsa::kAvx512, CpuIsa::kAvx2, CpuIsa::kPortable}) {
    if (name == "auto" && CpuHas(isa)) return isa;
    if (name != CpuIsaName(isa)) continue;
    if (CpuHas(isa)) return isa;
    return absl::UnimplementedError(
        absl::StrCat("--cpu-isa ", name, ": this CPU does not have it; use auto"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--cpu-isa '", name, "': must be auto, avx512, avx2 or portable"));
}

}  // namespace baton
