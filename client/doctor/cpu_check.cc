#include "client/doctor/cpu_check.h"

#include <algorithm>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

#include "client/doctor/machine_files.h"
#include "common/backend/cpu/machine/cpu_quota.h"
#include "common/backend/cpu/machine/cpu_set.h"

namespace baton {
namespace {

// As /proc/cpuinfo spells them. AMX is named though no kernel uses it yet.
constexpr const char* kFeatures[] = {"avx2",     "fma",      "f16c",     "avx_vnni",
                                     "avx512f",  "avx512bw", "avx512vl", "avx512_vnni",
                                     "amx_tile", "amx_int8", "amx_bf16"};

// What stands behind the first "NAME :" of /proc/cpuinfo.
std::string CpuInfoEntry(const std::string& text, absl::string_view name) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const size_t colon = line.find(':');
    if (colon == absl::string_view::npos) continue;
    if (absl::StripAsciiWhitespace(line.substr(0, colon)) != name) continue;
    return std::string(absl::StripAsciiWhitespace(line.substr(colon + 1)));
  }
  return "";
}

// Returns the word in brackets, such as "madvise" of "always [madvise] never".
std::string ChosenWord(const std::string& line) {
  const size_t begin = line.find('[');
  const size_t end = line.find(']');
  if (begin == std::string::npos || end == std::string::npos || end < begin) return "";
  return line.substr(begin + 1, end - begin - 1);
}

// Distinct lists of siblings are distinct cores.
int CoresOf(const std::vector<int>& cpus, const std::string& folder) {
  std::set<std::string> cores;
  for (const int cpu : cpus) {
    const std::string siblings =
        ReadMachineLine(absl::StrCat(folder, "/cpu", cpu, "/topology/thread_siblings_list"));
    if (siblings.empty()) return 0;
    cores.insert(siblings);
  }
  return static_cast<int>(cores.size());
}

// A CPU's folder has an entry "nodeN" for the memory that is near it.
int NodesOf(const std::vector<int>& cpus, const std::string& folder) {
  std::set<std::string> nodes;
  for (const int cpu : cpus) {
    for (std::string& node : NumberedEntries(absl::StrCat(folder, "/cpu", cpu), "node")) {
      nodes.insert(std::move(node));
    }
  }
  return static_cast<int>(nodes.size());
}

std::string Counted(int number, const char* one, const char* many) {
  return absl::StrCat(number, " ", number == 1 ? one : many);
}

Finding KernelsFinding(const CpuFacts& facts) {
  Finding finding{.check = "cpu.kernels"};
  finding.found =
      absl::StrCat(facts.model.empty() ? "unknown CPU" : facts.model, ": uses the ",
                   CpuIsaName(facts.isa), " kernels and supports ",
                   facts.features.empty() ? "no AVX2" : absl::StrJoin(facts.features, " "));
  if (facts.isa != CpuIsa::kPortable) return finding;
  finding.verdict = Verdict::kWarning;
  finding.remedy =
      "use a CPU with AVX2 and FMA; in a virtual machine pass the host's CPU model through";
  return finding;
}

Finding CoresFinding(const CpuFacts& facts) {
  Finding finding{.check = "cpu.cores"};
  const bool limited = facts.quota_cpus > 0 && facts.quota_cpus < facts.usable_cpus;
  const int available = limited ? facts.quota_cpus : facts.usable_cpus;
  finding.found = absl::StrCat(facts.usable_cpus, " of ",
                               Counted(facts.machine_cpus, "CPU", "CPUs"), " are available");
  if (limited) absl::StrAppend(&finding.found, "; the control group's quota equals ", available);
  if (facts.cores > 0) {
    absl::StrAppend(&finding.found, ", on ", Counted(facts.cores, "core", "cores"),
                    facts.cores < facts.usable_cpus ? " with hyper-threading" : "");
  }
  if (available < 2) {
    finding.verdict = Verdict::kWarning;
    finding.remedy = "provide two CPUs or more: on one, a prefill and a decode worker take turns";
  } else if (limited) {
    finding.verdict = Verdict::kWarning;
    finding.remedy = absl::StrCat(
        "assign whole CPUs (--cpu-set, cpuset.cpus) instead of a quota, which stops all threads of "
        "a step at once; a worker starts ",
        available, " threads");
  } else if (facts.cores > 0 && facts.cores < facts.usable_cpus) {
    finding.remedy =
        "try --cpu-set with one hyper-thread of each core: two of them share the core's arithmetic "
        "units";
  }
  return finding;
}

Finding GovernorFinding(const CpuFacts& facts) {
  Finding finding{.check = "cpu.governor"};
  if (facts.governor.empty()) {
    finding.verdict = Verdict::kSkipped;
    finding.found = "the system does not report its frequency governor";
    return finding;
  }
  finding.found = facts.governor;
  // With these drivers the CPU raises its frequency by itself under the governor of that name too.
  const bool by_itself = absl::StartsWith(facts.frequency_driver, "intel_pstate") ||
                         absl::StartsWith(facts.frequency_driver, "amd-pstate");
  if (facts.governor == "powersave" && !by_itself) {
    finding.verdict = Verdict::kWarning;
    finding.remedy = "select the performance governor: cpupower frequency-set -g performance";
  }
  return finding;
}

Finding HugePagesFinding(const CpuFacts& facts) {
  Finding finding{.check = "cpu.huge_pages", .found = facts.huge_pages};
  if (facts.huge_pages.empty()) {
    finding.verdict = Verdict::kSkipped;
    finding.found = "the kernel does not report transparent huge pages";
  } else if (facts.huge_pages == "never") {
    finding.verdict = Verdict::kWarning;
    finding.found = "never, which makes reading weights a third slower";
    finding.remedy = "echo madvise > /sys/kernel/mm/transparent_hugepage/enabled";
  }
  return finding;
}

Finding NumaFinding(const CpuFacts& facts) {
  Finding finding{.check = "cpu.numa",
                  .found = Counted(facts.numa_nodes, "NUMA node", "NUMA nodes")};
  if (facts.numa_nodes == 0) {
    finding.verdict = Verdict::kSkipped;
    finding.found = "the kernel does not report NUMA nodes";
  } else if (facts.numa_nodes > 1) {
    finding.verdict = Verdict::kWarning;
    finding.remedy =
        "keep each worker on the CPUs of one node: start it with --cpu-set, or under numactl "
        "--cpunodebind=N --membind=N";
  }
  return finding;
}

}  // namespace

CpuFacts GatherCpuFacts(const std::string& root) {
  const std::string cpu_folder = root + "/sys/devices/system/cpu";
  const std::string info = ReadMachineFile(root + "/proc/cpuinfo");
  const std::vector<int> usable = UsableCpus();
  CpuFacts facts;
  facts.model = CpuInfoEntry(info, "model name");
  facts.isa = BestCpuIsa();
  const std::vector<std::string> flags = absl::StrSplit(CpuInfoEntry(info, "flags"), ' ');
  for (const char* feature : kFeatures) {
    if (std::find(flags.begin(), flags.end(), feature) != flags.end()) {
      facts.features.push_back(feature);
    }
  }
  facts.machine_cpus = static_cast<int>(NumberedEntries(cpu_folder, "cpu").size());
  facts.usable_cpus = static_cast<int>(usable.size());
  facts.quota_cpus = QuotaCpus();
  facts.cores = CoresOf(usable, cpu_folder);
  const std::string frequency = absl::StrCat(cpu_folder, "/cpu", usable.front(), "/cpufreq/");
  facts.governor = ReadMachineLine(frequency + "scaling_governor");
  facts.frequency_driver = ReadMachineLine(frequency + "scaling_driver");
  facts.huge_pages =
      ChosenWord(ReadMachineLine(root + "/sys/kernel/mm/transparent_hugepage/enabled"));
  facts.numa_nodes = NodesOf(usable, cpu_folder);
  return facts;
}

Findings CpuFindings(const CpuFacts& facts) {
  return {KernelsFinding(facts), CoresFinding(facts), GovernorFinding(facts),
          HugePagesFinding(facts), NumaFinding(facts)};
}

}  // namespace baton
