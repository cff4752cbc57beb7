// The instruction sets that tests use on this CPU.
#pragma once

#include <string>
#include <vector>

#include "common/backend/cpu/simd/isa.h"

namespace baton {

// Returns those of kAllCpuIsas that this CPU has.
inline std::vector<CpuIsa> InstructionSets() {
  std::vector<CpuIsa> sets;
  for (const CpuIsa isa : kAllCpuIsas) {
    if (CpuHas(isa)) sets.push_back(isa);
  }
  return sets;
}

}  // namespace baton
