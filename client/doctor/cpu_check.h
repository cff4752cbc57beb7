// Whether this machine's CPUs compute as fast as they could.
#pragma once

#include <string>
#include <vector>

#include "client/doctor/finding.h"
#include "common/backend/cpu/simd/isa.h"

namespace baton {

struct CpuFacts {
  std::string model{};                  // as the CPU calls itself; empty: unknown
  CpuIsa isa = CpuIsa::kPortable;       // instruction set of the kernels that will be used
  std::vector<std::string> features{};  // CPU features that Baton uses, such as "avx512_vnni"
  int machine_cpus = 0;                 // 0: unknown
  int usable_cpus = 1;                  // CPUs in this process's affinity mask
  int quota_cpus = 0;                   // CPUs that the control group's quota allows; 0: no limit
  int cores = 0;                        // physical cores of the usable CPUs; 0: unknown
  std::string governor{};               // frequency governor; empty: cannot be read
  std::string frequency_driver{};       // such as "intel_pstate"; empty: unknown
  std::string huge_pages{};             // always, madvise or never; empty: unknown
  int numa_nodes = 0;                   // behind the usable CPUs; 0: unknown
};

// `root` is before /proc and /sys; empty: this machine's own.
CpuFacts GatherCpuFacts(const std::string& root = "");

// cpu.kernels, cpu.cores, cpu.governor, cpu.huge_pages and cpu.numa. Pure.
Findings CpuFindings(const CpuFacts& facts);

}  // namespace baton
