#include "common/backend/cpu/simd/isa.h"

#include <fstream>
#include <set>
#include <sstream>
#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

// The features that the kernel says this CPU has.
std::set<std::string> KernelsFeatures() {
  std::ifstream file("/proc/cpuinfo");
  for (std::string line; std::getline(file, line);) {
    if (!line.starts_with("flags")) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    std::set<std::string> features;
    for (std::string word; words >> word;) features.insert(word);
    return features;
  }
  return {};
}

TEST(CpuIsa, ACpuHasASetWhereTheKernelKnowsAllItsFeatures) {
  const std::set<std::string> features = KernelsFeatures();
  if (features.empty()) GTEST_SKIP() << "/proc/cpuinfo names no features";
  const auto has = [&](const std::set<std::string>& wanted) {
    for (const std::string& feature : wanted) {
      if (!features.contains(feature)) return false;
    }
    return true;
  };
  const bool avx2 = has({"avx2", "bmi1", "bmi2", "fma", "f16c", "movbe", "abm"});
  EXPECT_TRUE(CpuHas(CpuIsa::kPortable));
  EXPECT_EQ(CpuHas(CpuIsa::kAvx2), avx2);
  EXPECT_EQ(CpuHas(CpuIsa::kAvx2Vnni), avx2 && has({"avx_vnni"}));
  EXPECT_EQ(CpuHas(CpuIsa::kAvx512), avx2 && has({"avx512f", "avx512bw", "avx512cd", "avx512dq",
                                                  "avx512vl", "avx512_vnni"}));
}

TEST(CpuIsa, TheBestOneIsThereAndNoLaterOneOfTheListIs) {
  bool after_best = false;
  for (const CpuIsa isa : kAllCpuIsas) {
    EXPECT_FALSE(after_best && CpuHas(isa)) << CpuIsaName(isa);
    after_best = after_best || isa == BestCpuIsa();
  }
  EXPECT_TRUE(CpuHas(BestCpuIsa()));
  EXPECT_TRUE(after_best);
}

TEST(CpuIsa, EveryNameIsItsOwnAndReadBackWhereTheCpuHasIt) {
  std::set<std::string> names;
  for (const CpuIsa isa : kAllCpuIsas) {
    const std::string name = CpuIsaName(isa);
    EXPECT_TRUE(names.insert(name).second) << name;
    const auto parsed = ParseCpuIsa(name);
    if (CpuHas(isa)) {
      ASSERT_TRUE(parsed.ok()) << parsed.status();
      EXPECT_EQ(*parsed, isa);
    } else {
      EXPECT_EQ(parsed.status().code(), absl::StatusCode::kUnimplemented) << name;
      EXPECT_NE(parsed.status().message().find("--cpu-isa " + name), absl::string_view::npos);
    }
  }
}

TEST(CpuIsa, AutoIsTheBestAndAvx2TheBetterOfItsTwo) {
  EXPECT_EQ(*ParseCpuIsa("auto"), BestCpuIsa());
  const auto avx2 = ParseCpuIsa("avx2");
  if (!CpuHas(CpuIsa::kAvx2)) {
    EXPECT_EQ(avx2.status().code(), absl::StatusCode::kUnimplemented);
  } else {
    ASSERT_TRUE(avx2.ok()) << avx2.status();
    EXPECT_EQ(*avx2, CpuHas(CpuIsa::kAvx2Vnni) ? CpuIsa::kAvx2Vnni : CpuIsa::kAvx2);
  }
}

TEST(CpuIsa, AnUnknownWordIsRefusedWithTheKnownOnes) {
  for (const std::string name : {"", "AVX2", "sse", "avx512 "}) {
    const absl::Status status = ParseCpuIsa(name).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << name;
    EXPECT_NE(status.message().find("must be auto, avx512, avx2"), absl::string_view::npos)
        << status;
  }
}

struct Caller {
  [[gnu::always_inline]] static inline void Run(int* const& calls, const int& step) {
    *calls += step;
  }
};

TEST(CpuIsa, AKernelRunsOnceOnEverySet) {
  for (const CpuIsa isa : kAllCpuIsas) {
    if (!CpuHas(isa)) continue;
    int calls = 0;
    RunOn<Caller>(isa, &calls, 3);
    EXPECT_EQ(calls, 3) << CpuIsaName(isa);
  }
}

}  // namespace
}  // namespace baton
