// The memory that ExpertMixer keeps: what its header promises, however many rows there are.
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/backend/cpu/experts/expert_mixer.h"
#include "common/backend/cpu/product/cpu_weight.h"
#include "common/base/check.h"
#include "tests/support/allocation_counter.h"
#include "tests/support/random_values.h"

namespace baton {
namespace {

constexpr int kWidth = 64;
constexpr int kExpertWidth = 96;
constexpr int kExperts = 6;
constexpr int kUsed = 4;
// What does not grow with the rows: of each expert its end and its products, and the allocator's
// rounding.
constexpr size_t kSlack = 64 * 1024;

size_t PromisedBytes(int rows) {
  constexpr size_t kWave = ExpertMixer::kWavePairs * (10 * kWidth + 12 * kExpertWidth);
  return kWave + static_cast<size_t>(rows) * (10 * kWidth + 20 * kUsed);
}

// Experts without numbers of their own, of one type.
class ZeroExperts {
 public:
  explicit ZeroExperts(GgmlType type) {
    for (int expert = 0; expert < kExperts; ++expert) {
      gate_.push_back(Zeros(type, kExpertWidth, kWidth));
      up_.push_back(Zeros(type, kExpertWidth, kWidth));
      down_.push_back(Zeros(type, kWidth, kExpertWidth));
    }
  }

  // Adds the mixture of `rows` rows that choose different experts.
  void MixWith(ExpertMixer& mixer, int rows) {
    const auto count = static_cast<size_t>(rows);
    std::vector<float> in(count * kWidth, 1.0f);
    std::vector<float> router = NormalValues(count * kExperts, 1);
    const std::vector<float> gain(kWidth, 1.0f);
    std::vector<ProductScratch> scratch(1);
    const Experts experts{.gate = gate_, .up = up_, .down = down_, .used = kUsed};
    const Tensor rows_in{in.data(), rows, kWidth};
    mixer.Add({.in = rows_in,
               .gain = gain.data(),
               .router = {router.data(), rows, kExperts},
               .experts = experts,
               .out = rows_in},
              scratch);
  }

  ThreadPool& pool() { return pool_; }

 private:
  std::unique_ptr<Weight> Zeros(GgmlType type, int rows, int columns) {
    const GgmlBlock block = *GgmlBlockOf(type);
    const std::vector<uint8_t> bytes(static_cast<size_t>(rows) * static_cast<size_t>(columns) /
                                     block.elements * block.bytes);
    auto weight = CpuWeight::Pack(
        {"zeros", type, {static_cast<uint64_t>(columns), static_cast<uint64_t>(rows)}, bytes},
        pool_, memory_);
    BATON_CHECK(weight.ok(), "the weight must be readable");
    return *std::move(weight);
  }

  ThreadPool pool_{1, {}};
  CpuMemory memory_;
  std::vector<std::unique_ptr<Weight>> gate_, up_, down_;
};

TEST(ExpertMixerMemory, IsBoundedByTheWaveAndTheInput) {
  for (const GgmlType type : {GgmlType::kF32, GgmlType::kQ8_0}) {
    ZeroExperts experts(type);
    for (const int rows : {1, 30, 130, 500, 4000}) {
      const size_t before = LiveBytes();
      ExpertMixer mixer(BestCpuIsa(), experts.pool());
      experts.MixWith(mixer, rows);
      EXPECT_LE(LiveBytes() - before, PromisedBytes(rows) + kSlack)
          << GgmlTypeName(type) << ", " << rows << " rows";
    }
  }
}

}  // namespace
}  // namespace baton
