#include "common/backend/cpu/experts/expert_mixer.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cmath>
#include <cstring>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "common/backend/cpu/cpu_backend.h"
#include "common/base/check.h"
#include "common/base/float_types.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/random_values.h"

namespace baton {
namespace {

constexpr int kWidth = 64;
constexpr int kExpertWidth = 96;
constexpr float kEpsilon = 1e-5f;

struct MixtureCase {
  int experts = 5;
  int used = 2;
  bool biases = false;
  GgmlType in_type = GgmlType::kF32;
  GgmlType out_type = GgmlType::kF32;
  GateFunction function = GateFunction::kSilu;
};

// The bytes of a file's matrix whose weights are about 0.1.
std::vector<uint8_t> RandomMatrix(GgmlType type, int rows, int columns, std::mt19937& random) {
  const GgmlBlock block = *GgmlBlockOf(type);
  std::normal_distribution<float> normal(0, 0.1f);
  std::vector<uint8_t> bytes(static_cast<size_t>(rows * columns) / block.elements * block.bytes);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  for (size_t at = 0; at < bytes.size(); at += block.bytes) {
    const float value = normal(random);
    const uint16_t half = F32ToF16(type == GgmlType::kF16    ? value
                                   : type == GgmlType::kQ8_0 ? 0.0013f
                                                             : 0.02f);
    if (type == GgmlType::kF32) {
      std::memcpy(&bytes[at], &value, sizeof(value));
    } else if (type == GgmlType::kMxfp4) {
      bytes[at] = 122;
    } else {
      std::memcpy(&bytes[at], &half, sizeof(half));
    }
  }
  return bytes;
}

// The same random experts on any backend.
class RandomExperts {
 public:
  RandomExperts(const MixtureCase& c, Backend& backend) : case_(c) {
    std::mt19937 random(1);
    const auto load = [&](GgmlType type, int rows, int columns) {
      const std::vector<uint8_t> bytes = RandomMatrix(type, rows, columns, random);
      auto weight =
          backend.LoadWeight({"random.weight",
                              type,
                              {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)},
                              bytes});
      EXPECT_TRUE(weight.ok()) << weight.status();
      return *std::move(weight);
    };
    for (int expert = 0; expert < c.experts; ++expert) {
      gate_.push_back(load(c.in_type, kExpertWidth, kWidth));
      up_.push_back(load(c.in_type, kExpertWidth, kWidth));
      down_.push_back(load(c.out_type, kWidth, kExpertWidth));
    }
    const auto experts = static_cast<size_t>(c.experts);
    gate_bias_ = NormalValues(experts * kExpertWidth, random);
    up_bias_ = NormalValues(experts * kExpertWidth, random);
    down_bias_ = NormalValues(experts * kWidth, random);
  }

  Experts view() const {
    Experts view{
        .gate = gate_, .up = up_, .down = down_, .used = case_.used, .function = case_.function};
    if (case_.biases) {
      view.gate_bias = gate_bias_.data();
      view.up_bias = up_bias_.data();
      view.down_bias = down_bias_.data();
    }
    return view;
  }

 private:
  const MixtureCase case_;
  std::vector<std::unique_ptr<Weight>> gate_, up_, down_;
  std::vector<float> gate_bias_, up_bias_, down_bias_;
};

// Rows of the input with their logits.
struct Rows {
  int rows = 0;
  std::vector<float> in = {};      // [rows, kWidth]
  std::vector<float> router = {};  // [rows, experts]
  std::vector<float> gain = NormalValues(kWidth, 7);
};

Rows RandomRows(int rows, int experts, uint32_t seed) {
  std::mt19937 random(seed);
  Rows r{.rows = rows};
  r.in = NormalValues(static_cast<size_t>(rows * kWidth), random);
  r.router = NormalValues(static_cast<size_t>(rows * experts), random);
  // Logits at a few levels, so that many are equal.
  for (float& logit : r.router) logit = std::round(2 * logit) / 2;
  return r;
}

constexpr float kOutScale = 0.75f;
constexpr float kBefore = 0.25f;  // what the output is added to

std::vector<float> Mix(Backend& backend, const Experts& experts, Rows r) {
  std::vector<float> out(r.in.size(), kBefore);
  const int count = static_cast<int>(experts.gate.size());
  backend.AddExperts({r.in.data(), r.rows, kWidth}, r.gain.data(), kEpsilon,
                     {r.router.data(), r.rows, count}, experts, kOutScale,
                     {out.data(), r.rows, kWidth});
  return out;
}

// A column of a matrix times a vector, plus the bias, in double.
double Dot(const Weight& weight, int row, const std::vector<double>& x, const float* bias) {
  std::vector<float> weights(x.size());
  static_cast<const CpuWeight&>(weight).Dequantise(row, weights.data());
  double sum = bias == nullptr ? 0 : bias[row];
  for (size_t k = 0; k < x.size(); ++k) sum += weights[k] * x[k];
  return sum;
}

// One row's mixture by its definition, in double; of experts without quantised weights.
std::vector<double> DefinedMix(const Experts& experts, const Rows& r, int row) {
  const float* in = r.in.data() + row * kWidth;
  const auto count = experts.gate.size();
  const float* logits = r.router.data() + static_cast<size_t>(row) * count;
  double squares = 0;
  for (int k = 0; k < kWidth; ++k) squares += double{in[k]} * in[k];
  std::vector<double> x;
  for (int k = 0; k < kWidth; ++k) {
    x.push_back(in[k] / std::sqrt(squares / kWidth + kEpsilon) * r.gain[static_cast<size_t>(k)]);
  }
  const auto bias_of = [](const float* biases, size_t expert, int rows) {
    return biases == nullptr ? nullptr : biases + expert * static_cast<size_t>(rows);
  };
  std::vector<double> out(kWidth, kBefore);
  double total = 0;
  std::vector<std::pair<size_t, double>> chosen;
  for (size_t expert = 0; expert < count; ++expert) {
    int before = 0;  // experts that come before it
    for (size_t other = 0; other < count; ++other) {
      if (logits[other] > logits[expert]) ++before;
      if (logits[other] == logits[expert] && other < expert) ++before;
    }
    if (before >= experts.used) continue;
    chosen.emplace_back(expert, std::exp(double{logits[expert]}));
    total += chosen.back().second;
  }
  for (const auto& [expert, weight] : chosen) {
    std::vector<double> y;
    for (int i = 0; i < kExpertWidth; ++i) {
      const double g =
          Dot(*experts.gate[expert], i, x, bias_of(experts.gate_bias, expert, kExpertWidth));
      const double u =
          Dot(*experts.up[expert], i, x, bias_of(experts.up_bias, expert, kExpertWidth));
      y.push_back(g / (1 + std::exp(-g)) * u);
    }
    for (int i = 0; i < kWidth; ++i) {
      const double d = Dot(*experts.down[expert], i, y, bias_of(experts.down_bias, expert, kWidth));
      out[static_cast<size_t>(i)] += kOutScale * weight / total * d;
    }
  }
  return out;
}

void ExpectDefined(const MixtureCase& c, const Rows& r, const std::string& what) {
  CpuBackend backend(BestCpuIsa(), 2, {});
  const RandomExperts experts(c, backend);
  const std::vector<float> out = Mix(backend, experts.view(), r);
  for (int row = 0; row < r.rows; ++row) {
    const std::vector<double> expected = DefinedMix(experts.view(), r, row);
    for (int k = 0; k < kWidth; ++k) {
      const auto at = static_cast<size_t>(k);
      ASSERT_NEAR(out[static_cast<size_t>(row * kWidth + k)], expected[at],
                  2e-5 * (1 + std::fabs(expected[at])))
          << what << ", row " << row << ", column " << k;
    }
  }
}

TEST(AddExperts, IsTheSharedSumOfTheChosenExperts) {
  for (const int experts : {1, 5, 16}) {
    for (const int used : {1, 2, 16}) {
      if (used > experts) continue;
      for (const bool biases : {false, true}) {
        const MixtureCase c{.experts = experts, .used = used, .biases = biases};
        const auto seed = static_cast<uint32_t>(experts * 20 + used);
        const std::string what = std::to_string(used) + " of " + std::to_string(experts);
        ExpectDefined(c, RandomRows(1 + static_cast<int>(seed % 13), experts, seed), what);
      }
    }
  }
}

TEST(AddExperts, HoldsWhereAllRowsChooseOneExpertAndTheOthersHaveNone) {
  Rows r = RandomRows(9, 5, 3);
  for (size_t i = 0; i < r.router.size(); ++i) r.router[i] = i % 5 == 3 ? 9.0f : 0.0f;
  ExpectDefined({.used = 1, .biases = true}, r, "expert 3 alone");
  for (float& logit : r.router) logit = 1;
  ExpectDefined({.used = 2}, r, "equal logits");
}

TEST(AddExperts, OfNoRowsDoesNothing) {
  CpuBackend backend(CpuIsa::kPortable, 1, {});
  const RandomExperts experts({}, backend);
  EXPECT_TRUE(Mix(backend, experts.view(), {}).empty());
}

TEST(AddExperts, AddsToItsOwnInput) {
  CpuBackend backend(BestCpuIsa(), 2, {});
  const RandomExperts experts({}, backend);
  Rows r = RandomRows(300, 5, 4);  // more than one wave of pairs
  std::vector<float> expected = r.in;
  const Tensor in{r.in.data(), r.rows, kWidth};
  const Tensor router{r.router.data(), r.rows, 5};
  backend.AddExperts(in, r.gain.data(), kEpsilon, router, experts.view(), 1,
                     {expected.data(), r.rows, kWidth});
  backend.AddExperts(in, r.gain.data(), kEpsilon, router, experts.view(), 1, in);
  EXPECT_EQ(r.in, expected);
}

// One row's mixture put together from the backend's other operations.
std::vector<float> ComposedMix(Backend& backend, const Experts& experts, const Rows& r, int row) {
  ThreadPool pool(1, {});
  std::vector<ExpertChoice> choices(static_cast<size_t>(experts.used));
  const int count = static_cast<int>(experts.gate.size());
  std::vector<float> logits(r.router.begin() + row * count, r.router.begin() + (row + 1) * count);
  ChooseExperts(CpuIsa::kPortable, pool, {logits.data(), 1, count}, experts.used, choices.data());
  std::vector<float> in(r.in.begin() + row * kWidth, r.in.begin() + (row + 1) * kWidth);
  std::vector<float> gate(kExpertWidth), up(kExpertWidth), down(kWidth), sum(kWidth);
  const Tensor gates{gate.data(), 1, kExpertWidth};
  const Tensor ups{up.data(), 1, kExpertWidth};
  const Tensor downs{down.data(), 1, kWidth};
  for (const auto& [expert, share] : choices) {
    const auto e = static_cast<size_t>(expert);
    backend.NormProduct({in.data(), 1, kWidth}, r.gain.data(), kEpsilon,
                        Backend::InputPrecision::kUsual,
                        {{experts.gate[e].get(), gates}, {experts.up[e].get(), ups}});
    if (experts.gate_bias != nullptr) backend.AddBias(experts.gate_bias + e * kExpertWidth, gates);
    if (experts.up_bias != nullptr) backend.AddBias(experts.up_bias + e * kExpertWidth, ups);
    backend.GatedProduct(experts.function, gates, ups, {{experts.down[e].get(), downs}});
    if (experts.down_bias != nullptr) backend.AddBias(experts.down_bias + e * kWidth, downs);
    for (size_t k = 0; k < kWidth; ++k) sum[k] = std::fma(share, down[k], sum[k]);
  }
  std::vector<float> out(kWidth, kBefore);
  for (size_t k = 0; k < kWidth; ++k) out[k] = std::fma(kOutScale, sum[k], out[k]);
  return out;
}

// Its own bits for every row, alone or among others, on any threads and instruction set.
void ExpectComposedBits(const MixtureCase& c, const Rows& r, const std::string& what) {
  CpuBackend reference(CpuIsa::kPortable, 1, {});
  const RandomExperts reference_experts(c, reference);
  std::vector<float> expected;
  for (int row = 0; row < r.rows; ++row) {
    const std::vector<float> out = ComposedMix(reference, reference_experts.view(), r, row);
    expected.insert(expected.end(), out.begin(), out.end());
  }
  for (const CpuIsa isa : InstructionSets()) {
    CpuBackend backend(isa, isa == CpuIsa::kAvx2 ? 1 : 3, {});
    const RandomExperts experts(c, backend);
    const std::vector<float> out = Mix(backend, experts.view(), r);
    EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * sizeof(float)), 0)
        << what << ", " << CpuIsaName(isa);
  }
}

TEST(AddExperts, GivesARowTheBitsThatTheOtherOperationsGiveItAlone) {
  constexpr std::pair<GgmlType, GgmlType> kTypes[] = {{GgmlType::kF32, GgmlType::kF16},
                                                      {GgmlType::kF16, GgmlType::kQ8_0},
                                                      {GgmlType::kQ8_0, GgmlType::kF32},
                                                      {GgmlType::kQ4_0, GgmlType::kQ4_0},
                                                      {GgmlType::kMxfp4, GgmlType::kMxfp4}};
  for (const auto& [in_type, out_type] : kTypes) {
    const std::string what = GgmlTypeName(in_type) + " and " + GgmlTypeName(out_type);
    for (const int rows : {1, 45}) {
      for (const bool biases : {false, true}) {
        const MixtureCase c{.biases = biases, .in_type = in_type, .out_type = out_type};
        ExpectComposedBits(c, RandomRows(rows, c.experts, static_cast<uint32_t>(rows)), what);
      }
    }
  }
}

TEST(AddExperts, ComputesEveryGateFunction) {
  for (const GateFunction function : {GateFunction::kGeluTanh, GateFunction::kClampedSilu}) {
    const MixtureCase c{.biases = true, .function = function};
    ExpectComposedBits(c, RandomRows(6, c.experts, 21),
                       "function " + std::to_string(static_cast<int>(function)));
  }
}

TEST(AddExperts, GivesTheSameBitsInManyWaves) {
  const MixtureCase c{.used = 3, .biases = true, .in_type = GgmlType::kQ8_0};
  ExpectComposedBits(c, RandomRows(ExpertMixer::kWavePairs, c.experts, 11), "several waves");
  Rows one_expert = RandomRows(ExpertMixer::kWavePairs + 5, c.experts, 12);
  for (size_t i = 0; i < one_expert.router.size(); i += 5) one_expert.router[i] = 100;
  ExpectComposedBits(c, one_expert, "an expert of more rows than a wave");
}

// The whole pages within a weight, which end the process if they are touched while this lives.
class GuardedWeight {
 public:
  explicit GuardedWeight(const Weight& weight) {
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const uint8_t* data = static_cast<const CpuWeight&>(weight).data();
    const size_t before = (page - reinterpret_cast<uintptr_t>(data) % page) % page;
    BATON_CHECK(weight.size_bytes() >= before + page, "a weight with a whole page");
    pages_ = const_cast<uint8_t*>(data) + before;
    bytes_ = (weight.size_bytes() - before) / page * page;
    BATON_CHECK(mprotect(pages_, bytes_, PROT_NONE) == 0, "the pages must become inaccessible");
  }
  GuardedWeight(const GuardedWeight&) = delete;
  GuardedWeight& operator=(const GuardedWeight&) = delete;
  ~GuardedWeight() { mprotect(pages_, bytes_, PROT_READ | PROT_WRITE); }

 private:
  void* pages_;
  size_t bytes_;
};

std::set<int> ChosenExperts(const Rows& r, int used) {
  ThreadPool pool(1, {});
  std::vector<float> logits = r.router;
  const int experts = static_cast<int>(logits.size()) / r.rows;
  std::vector<ExpertChoice> choices(static_cast<size_t>(r.rows * used));
  ChooseExperts(CpuIsa::kPortable, pool, {logits.data(), r.rows, experts}, used, choices.data());
  std::set<int> chosen;
  for (const ExpertChoice& choice : choices) chosen.insert(choice.expert);
  return chosen;
}

TEST(AddExperts, TouchesTheWeightsOfTheChosenExpertsOnly) {
  for (const GgmlType type : {GgmlType::kF32, GgmlType::kF16}) {
    const MixtureCase c{.experts = 12, .biases = true, .in_type = type, .out_type = type};
    for (const CpuIsa isa : InstructionSets()) {
      CpuBackend backend(isa, 2, {});
      const RandomExperts experts(c, backend);
      const Experts view = experts.view();
      for (const int rows : {1, 4}) {
        const Rows r = RandomRows(rows, c.experts, 5);
        const std::vector<float> expected = Mix(backend, view, r);
        const std::set<int> chosen = ChosenExperts(r, c.used);
        std::vector<std::unique_ptr<GuardedWeight>> guards;
        for (int expert = 0; expert < c.experts; ++expert) {
          if (chosen.contains(expert)) continue;
          const auto e = static_cast<size_t>(expert);
          for (const Weight* weight : {view.gate[e].get(), view.up[e].get(), view.down[e].get()}) {
            guards.push_back(std::make_unique<GuardedWeight>(*weight));
          }
        }
        ASSERT_FALSE(guards.empty());
        EXPECT_EQ(Mix(backend, view, r), expected) << CpuIsaName(isa) << ", " << rows << " rows";
      }
    }
  }
}

}  // namespace
}  // namespace baton
