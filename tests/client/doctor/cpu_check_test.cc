#include "client/doctor/cpu_check.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/backend/cpu/machine/cpu_set.h"
#include "tests/client/doctor/find_finding.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

CpuFacts Good() {
  return {.model = "A CPU",
          .isa = CpuIsa::kAvx512,
          .features = {"avx2", "avx512f", "avx512_vnni"},
          .machine_cpus = 8,
          .usable_cpus = 8,
          .cores = 8,
          .governor = "performance",
          .huge_pages = "madvise",
          .numa_nodes = 1};
}

Finding OfCpu(const CpuFacts& facts, const char* check) {
  return FindFinding(CpuFindings(facts), check);
}

TEST(CpuFindings, OfAGoodMachineAreOkWithNothingToDo) {
  for (const Finding& finding : CpuFindings(Good())) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.check;
    EXPECT_EQ(finding.remedy, "") << finding.check;
  }
}

TEST(CpuFindings, NameTheKernelsThatWillBeUsed) {
  EXPECT_THAT(OfCpu(Good(), "cpu.kernels").found,
              HasSubstr("the avx512 kernels and supports avx2"));
  CpuFacts old = Good();
  old.isa = CpuIsa::kPortable;
  EXPECT_EQ(OfCpu(old, "cpu.kernels").verdict, Verdict::kWarning);
}

TEST(CpuFindings, WarnOfAQuotaAndOfASingleCpu) {
  CpuFacts facts = Good();
  facts.quota_cpus = 3;
  EXPECT_EQ(OfCpu(facts, "cpu.cores").verdict, Verdict::kWarning);
  EXPECT_THAT(OfCpu(facts, "cpu.cores").found, HasSubstr("quota equals 3"));
  facts.quota_cpus = 9;
  EXPECT_EQ(OfCpu(facts, "cpu.cores").verdict, Verdict::kOk) << "it limits nothing";
  facts.usable_cpus = 1;
  EXPECT_EQ(OfCpu(facts, "cpu.cores").verdict, Verdict::kWarning);
}

TEST(CpuFindings, TellOfHyperThreading) {
  CpuFacts facts = Good();
  facts.cores = 4;
  EXPECT_EQ(OfCpu(facts, "cpu.cores").verdict, Verdict::kOk);
  EXPECT_THAT(OfCpu(facts, "cpu.cores").found, HasSubstr("on 4 cores with hyper-threading"));
  EXPECT_THAT(OfCpu(facts, "cpu.cores").remedy, HasSubstr("--cpu-set"));
}

TEST(CpuFindings, WarnOfASlowGovernorUnlessTheCpuDecidesItself) {
  CpuFacts facts = Good();
  facts.governor = "powersave";
  facts.frequency_driver = "acpi-cpufreq";
  EXPECT_EQ(OfCpu(facts, "cpu.governor").verdict, Verdict::kWarning);
  facts.frequency_driver = "intel_pstate";
  EXPECT_EQ(OfCpu(facts, "cpu.governor").verdict, Verdict::kOk);
  facts.governor = "";
  EXPECT_EQ(OfCpu(facts, "cpu.governor").verdict, Verdict::kSkipped);
}

TEST(CpuFindings, WarnOfMissingHugePagesAndOfSeveralNodes) {
  CpuFacts facts = Good();
  facts.huge_pages = "never";
  facts.numa_nodes = 2;
  EXPECT_EQ(OfCpu(facts, "cpu.huge_pages").verdict, Verdict::kWarning);
  EXPECT_THAT(OfCpu(facts, "cpu.huge_pages").remedy, HasSubstr("transparent_hugepage"));
  EXPECT_EQ(OfCpu(facts, "cpu.numa").verdict, Verdict::kWarning);
  EXPECT_THAT(OfCpu(facts, "cpu.numa").remedy, HasSubstr("--cpu-set"));
}

TEST(GatherCpuFacts, ReadsWhatTheKernelTells) {
  const std::string root = testing::TempDir() + "/cpu_check_test";
  std::filesystem::remove_all(root);
  const auto write = [&](const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root + path).parent_path());
    std::ofstream(root + path) << text;
  };
  write("/proc/cpuinfo",
        "model name\t: Some CPU\nflags\t\t: fpu avx2 avx512_vnni amx_int8 avx512\n");
  write("/sys/kernel/mm/transparent_hugepage/enabled", "always madvise [never]\n");
  const std::string cpus = "/sys/devices/system/cpu/cpu";
  write("/sys/devices/system/cpu/cpufreq/none", "");
  for (const int cpu : UsableCpus()) {
    write(absl::StrCat(cpus, cpu, "/topology/thread_siblings_list"), "0-1023\n");
    write(absl::StrCat(cpus, cpu, "/node1/none"), "");
    write(absl::StrCat(cpus, cpu, "/cpufreq/scaling_governor"), "schedutil\n");
  }
  const CpuFacts facts = GatherCpuFacts(root);
  EXPECT_EQ(facts.model, "Some CPU");
  EXPECT_THAT(facts.features, ElementsAre("avx2", "avx512_vnni", "amx_int8"));
  EXPECT_EQ(facts.machine_cpus, static_cast<int>(UsableCpus().size()));
  EXPECT_EQ(facts.cores, 1) << "all are siblings";
  EXPECT_EQ(facts.governor, "schedutil");
  EXPECT_EQ(facts.huge_pages, "never");
  EXPECT_EQ(facts.numa_nodes, 1);
}

}  // namespace
}  // namespace baton
