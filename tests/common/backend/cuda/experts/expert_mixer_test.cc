#include "common/backend/cuda/experts/expert_mixer.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <deque>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/backend/cuda/weight/cuda_weight.h"
#include "tests/common/backend/cuda/product/gate_in_double.h"
#include "tests/common/backend/cuda/product/test_matrix.h"
#include "tests/support/cuda_shim/device_array.h"
#include "tests/support/cuda_shim/every_fiber_order.h"
#include "tests/support/random_values.h"

namespace baton {
namespace {

constexpr float kEpsilon = 0.0625f;
constexpr float kScale = -0.6f;

struct MixShape {
  int experts;
  int used;
  int width;
  int expert_width;
};

absl::StatusOr<BackendBuffer> Allocate(size_t bytes) {
  void* data = nullptr;
  BATON_CHECK(cudaMalloc(&data, bytes) == cudaSuccess, "the call on device memory must succeed");
  BATON_CHECK(cudaMemset(data, 0, bytes) == cudaSuccess, "the call on device memory must succeed");
  BATON_CHECK(cudaDeviceSynchronize() == cudaSuccess, "the call on device memory must succeed");
  return BackendBuffer(static_cast<uint8_t*>(data), bytes, [](uint8_t* p) { cudaFree(p); });
}

// A layer's experts, and rows that go through them.
class Mixture {
 public:
  // Elements of the gates, the ups and the downs.
  Mixture(const MixShape& shape, int rows, const TestElement (&elements)[3], GateFunction function,
          bool biased, uint32_t seed)
      : shape_(shape), rows_(rows), function_(function), biased_(biased), random_(seed) {
    in_ = Normal(rows * shape.width, 1);
    gain_ = Normal(shape.width, 1);
    before_ = Normal(rows * shape.width, 1);
    router_ = Normal(rows * shape.experts, 2);
    WeightUpload upload(0, {});
    for (int e = 0; e < shape.experts; ++e) {
      for (int part = 0; part < 3; ++part) {
        const bool down = part == 2;
        parts_[part].files.emplace_back(elements[part], down ? shape.width : shape.expert_width,
                                        down ? shape.expert_width : shape.width, random_);
        auto weight = CudaWeight::Load(parts_[part].files.back().FileTensor(), Allocate, upload);
        BATON_CHECK(weight.ok(), "the weight must be readable");
        parts_[part].weights.push_back(*std::move(weight));
      }
    }
    for (int part = 0; part < 3; ++part) {
      parts_[part].bias =
          Normal(shape.experts * (part == 2 ? shape.width : shape.expert_width), 0.5f);
    }
  }

  // The output for rows [first, first + count), added to `before_`; in the input's memory if
  // `in_place`.
  std::vector<float> Run(int first, int count, int terms, bool in_place = false,
                         bool invariant = true) {
    const auto rows_of = [&](const std::vector<float>& values, int columns) {
      return std::vector<float>(values.begin() + first * columns,
                                values.begin() + (first + count) * columns);
    };
    const DeviceArray<float> in(rows_of(in_, shape_.width)), gain(gain_),
        router(rows_of(router_, shape_.experts)), out(rows_of(before_, shape_.width));
    const DeviceArray<float> biases[] = {DeviceArray<float>(parts_[0].bias),
                                         DeviceArray<float>(parts_[1].bias),
                                         DeviceArray<float>(parts_[2].bias)};
    const Experts experts = {.gate = parts_[0].weights,
                             .up = parts_[1].weights,
                             .down = parts_[2].weights,
                             .gate_bias = biased_ ? biases[0].data() : nullptr,
                             .up_bias = biased_ ? biases[1].data() : nullptr,
                             .down_bias = biased_ ? biases[2].data() : nullptr,
                             .used = shape_.used,
                             .function = function_};
    const DeviceArray<float>& result = in_place ? in : out;
    const ExpertMix mix = {.in = {in.data(), count, shape_.width},
                           .gain = gain.data(),
                           .epsilon = kEpsilon,
                           .router = {router.data(), count, shape_.experts},
                           .experts = experts,
                           .scale = kScale,
                           .out = {result.data(), count, shape_.width},
                           .terms = terms,
                           .invariant = invariant};
    const DeviceArray<uint8_t> scratch(ExpertScratchBytes(mix));
    LaunchAddExperts(mix, scratch.data(), nullptr);
    return result.Download();
  }

  // Checks Run's result for all rows, added to `before`, against sums in double precision. An error
  // is allowed `tolerance` of the size of the terms of its sum.
  void ExpectTheMixture(const std::vector<float>& results, const std::vector<float>& before,
                        double tolerance) const {
    for (int row = 0; row < rows_; ++row) {
      const std::vector<double> x = Normalised(row);
      std::vector<double> expected(static_cast<size_t>(shape_.width));
      std::vector<double> size(expected.size());
      const std::vector<Share> shares = Shares(row);
      for (const Share& share : shares) {
        const std::vector<double> gate = Product(0, share.expert, x);
        const std::vector<double> up = Product(1, share.expert, x);
        std::vector<double> gated;
        for (size_t i = 0; i < gate.size(); ++i) {
          gated.push_back(GatedInDouble(function_, gate[i], up[i]));
        }
        double norm = 0;
        for (const double value : gated) norm += std::fabs(value);
        const std::vector<double> down = Product(2, share.expert, gated);
        for (size_t k = 0; k < down.size(); ++k) {
          expected[k] += share.value * down[k];
          size[k] += share.value * (std::fabs(down[k]) + norm);
        }
      }
      for (size_t k = 0; k < expected.size(); ++k) {
        const size_t at = static_cast<size_t>(row * shape_.width) + k;
        ASSERT_NEAR(results[at], before[at] + double{kScale} * expected[k],
                    tolerance * size[k] + 1e-6 * std::fabs(before[at]))
            << "row " << row << ", column " << k;
      }
    }
  }

  const std::vector<float>& before() const { return before_; }
  const std::vector<float>& in() const { return in_; }
  // Makes a row's input no number.
  void Poison(int row) { in_[static_cast<size_t>(row * shape_.width)] = NAN; }

 private:
  struct Share {
    int expert;
    double value;
  };
  struct Part {
    std::deque<TestMatrix> files;                  // [experts]
    std::vector<std::unique_ptr<Weight>> weights;  // [experts]
    std::vector<float> bias;                       // [experts, outputs]
  };

  std::vector<float> Normal(int count, float scale) {
    std::vector<float> values = NormalValues(static_cast<size_t>(count), random_);
    for (float& value : values) value *= scale;
    return values;
  }

  std::vector<double> Normalised(int row) const {
    const float* in = &in_[static_cast<size_t>(row * shape_.width)];
    double squares = 0;
    for (int k = 0; k < shape_.width; ++k) squares += double{in[k]} * in[k];
    std::vector<double> x;
    for (int k = 0; k < shape_.width; ++k) {
      x.push_back(in[k] / std::sqrt(squares / shape_.width + kEpsilon) *
                  gain_[static_cast<size_t>(k)]);
    }
    return x;
  }

  std::vector<Share> Shares(int row) const {
    const float* logits = &router_[static_cast<size_t>(row * shape_.experts)];
    std::vector<int> ids(static_cast<size_t>(shape_.experts));
    std::iota(ids.begin(), ids.end(), 0);
    std::stable_sort(ids.begin(), ids.end(), [&](int a, int b) { return logits[a] > logits[b]; });
    ids.resize(static_cast<size_t>(shape_.used));
    double sum = 0;
    for (const int id : ids) sum += std::exp(double{logits[id]});
    std::vector<Share> shares;
    for (const int id : ids) shares.push_back({id, std::exp(double{logits[id]}) / sum});
    return shares;
  }

  std::vector<double> Product(int part, int expert, const std::vector<double>& x) const {
    const TestMatrix& weight = parts_[part].files[static_cast<size_t>(expert)];
    std::vector<double> out;
    for (int n = 0; n < weight.rows(); ++n) {
      double sum = biased_ ? parts_[part].bias[static_cast<size_t>(expert * weight.rows() + n)] : 0;
      for (size_t k = 0; k < x.size(); ++k) sum += x[k] * weight.Value(n, static_cast<int>(k));
      out.push_back(sum);
    }
    return out;
  }

  MixShape shape_;
  int rows_;
  GateFunction function_;
  bool biased_;
  std::mt19937 random_;
  std::vector<float> in_;      // [rows, width]
  std::vector<float> gain_;    // [width]
  std::vector<float> before_;  // [rows, width]
  std::vector<float> router_;  // [rows, experts]
  Part parts_[3];              // gate, up, down
};

using ExpertMixer = EveryFiberOrder;
INSTANTIATE_TEST_SUITE_P(Orders, ExpertMixer, testing::ValuesIn(cuda_shim::kAllFiberOrders));

const TestElement& kF32 = kTestElements[0];
const TestElement& kBf16 = kTestElements[2];
const TestElement& kQ8_0 = kTestElements[3];
const TestElement& kQ4_0 = kTestElements[4];

TEST_P(ExpertMixer, AddsTheSharesOfTheChosenExperts) {
  struct Case {
    MixShape shape;
    int rows;
    bool biased;
  };
  const Case cases[] = {{{6, 3, 52, 40}, 1, false},
                        {{4, 1, 36, 72}, 7, true},
                        {{9, 4, 40, 24}, 30, true},
                        {{2, 2, 20, 136}, 21, false}};
  int turn = static_cast<int>(GetParam());
  for (const Case& one : cases) {
    const GateFunction function = kGateFunctions[turn++ % 3];
    SCOPED_TRACE(std::to_string(one.rows) + " rows, function " +
                 std::to_string(static_cast<int>(function)));
    Mixture mixture(one.shape, one.rows, {kF32, kF32, kF32}, function, one.biased, 3);
    mixture.ExpectTheMixture(mixture.Run(0, one.rows, 2), mixture.before(), 0x1p-13);
    if (HasFatalFailure()) return;
  }
}

TEST_P(ExpertMixer, TakesWeightsOfAnyTypes) {
  const MixShape shape = {5, 2, 64, 96};
  constexpr int kRows = 6;
  Mixture mixture(shape, kRows, {kQ8_0, kBf16, kQ4_0}, GateFunction::kSilu, false, 4);
  // Quantised weights are rounded to BF16, and so is an input of one term.
  for (const int terms : {1, 2}) {
    mixture.ExpectTheMixture(mixture.Run(0, kRows, terms), mixture.before(), 0.1);
  }
}

TEST_P(ExpertMixer, TakesTilesOfTwoPairsWhereTheOrderOfASumMayBeAnother) {
  // Two rows, of which any pair has an expert in common with another or not; and six rows whose
  // pairs are few beside the experts.
  for (const auto& [experts, rows] : {std::pair{3, 1}, {3, 2}, {24, 6}}) {
    Mixture mixture({experts, 2, 64, 96}, rows, {kQ8_0, kQ4_0, kQ8_0}, GateFunction::kSilu, true,
                    7);
    const std::vector<float> out = mixture.Run(0, rows, 1, false, /*invariant=*/false);
    mixture.ExpectTheMixture(out, mixture.before(), 0.1);
    EXPECT_NE(out, mixture.Run(0, rows, 1)) << "the same kernel";
  }
}

TEST_P(ExpertMixer, MayAddToItsInput) {
  constexpr int kRows = 9;
  Mixture mixture({4, 2, 48, 32}, kRows, {kF32, kF32, kF32}, GateFunction::kGeluTanh, false, 5);
  mixture.ExpectTheMixture(mixture.Run(0, kRows, 2, /*in_place=*/true), mixture.in(), 0x1p-13);
}

TEST_P(ExpertMixer, GivesARowTheSameBitsAloneAndInAnyBatch) {
  constexpr int kRows = 40;
  const MixShape shape = {3, 2, 48, 64};
  Mixture mixture(shape, kRows, {kBf16, kBf16, kQ8_0}, GateFunction::kClampedSilu, true, 6);
  mixture.Poison(3);
  const std::vector<float> all = mixture.Run(0, kRows, 1);
  struct Range {
    int first;
    int count;
  };
  for (const auto& [first, count] : {Range{0, 1}, {kRows - 1, 1}, {2, 5}, {1, 39}}) {
    const std::vector<float> some = mixture.Run(first, count, 1);
    for (int row = 0; row < count; ++row) {
      if (first + row == 3) continue;  // NaN, which no other row may see
      ASSERT_EQ(std::memcmp(&some[static_cast<size_t>(row * shape.width)],
                            &all[static_cast<size_t>((first + row) * shape.width)],
                            static_cast<size_t>(shape.width) * sizeof(float)),
                0)
          << "row " << first + row << " of " << count;
    }
  }
}

// Rows that do not fit into the scratch memory together are computed one after the other.
TEST(ExpertMixerScratch, IsBoundedForAnyNumberOfRows) {
  std::mt19937 random(8);
  WeightUpload upload(0, {});
  auto weight =
      CudaWeight::Load(TestMatrix(kQ4_0, 1024, 2048, random).FileTensor(), Allocate, upload);
  ASSERT_TRUE(weight.ok()) << weight.status();
  std::vector<std::unique_ptr<Weight>> gates;
  gates.push_back(*std::move(weight));
  const Experts experts = {.gate = gates, .up = gates, .down = gates, .used = 8};
  size_t last = 0;
  for (const int rows : {1, 64, 500, 4096, 100'000}) {
    const ExpertMix mix = {.in = {nullptr, rows, 2048},
                           .router = {nullptr, rows, 128},
                           .experts = experts,
                           .out = {nullptr, rows, 2048}};
    const size_t bytes = ExpertScratchBytes(mix);
    EXPECT_LE(bytes, kExpertScratchBytes);
    EXPECT_GE(bytes, rows < 1000 ? last : kExpertScratchBytes / 4);
    last = bytes;
  }
}

}  // namespace
}  // namespace baton
