#include "common/backend/cpu/product.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "common/backend/cpu/cpu_weight.h"
#include "common/base/float_types.h"

namespace baton {
namespace {

constexpr int kColumns = 96;
constexpr int kRows = 37;  // not a multiple of 16

// A file's tensor with random contents, and what they mean.
struct RandomTensor {
  RandomTensor(GgmlType type, uint32_t seed) : values(kRows * kColumns) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 1);
    for (int i = 0; i < kRows * kColumns; i += type_is_quantised(type) ? 32 : 1) {
      Append(type, i, random, normal);
    }
    tensor = {"random.weight", type, {kColumns, kRows}, bytes};
  }

  static bool type_is_quantised(GgmlType type) {
    return type == GgmlType::kQ8_0 || type == GgmlType::kQ4_0 || type == GgmlType::kQ4_1;
  }

  void Append16(uint16_t value) {
    bytes.push_back(static_cast<uint8_t>(value & 255));
    bytes.push_back(static_cast<uint8_t>(value >> 8));
  }

  void Append(GgmlType type, int first, std::mt19937& random,
              std::normal_distribution<float>& normal) {
    const size_t i = static_cast<size_t>(first);
    if (type == GgmlType::kF32) {
      values[i] = normal(random);
      const uint8_t* raw = reinterpret_cast<const uint8_t*>(&values[i]);
      bytes.insert(bytes.end(), raw, raw + 4);
      return;
    }
    const uint16_t half = F32ToF16(normal(random));
    if (type == GgmlType::kF16 || type == GgmlType::kBf16) {
      values[i] = type == GgmlType::kF16 ? F16ToF32(half) : Bf16ToF32(half);
      if (!(std::fabs(values[i]) < 100)) values[i] = 0;
      Append16(values[i] == 0 ? 0 : half);
      return;
    }
    const float scale = F16ToF32(half);
    Append16(half);
    float min = type == GgmlType::kQ4_0 ? -8 * scale : 0;
    if (type == GgmlType::kQ4_1) {
      const uint16_t min_half = F32ToF16(normal(random));
      min = F16ToF32(min_half);
      Append16(min_half);
    }
    for (size_t k = 0; k < 32; ++k) {
      const uint8_t byte = static_cast<uint8_t>(random());
      if (type == GgmlType::kQ8_0) {
        bytes.push_back(byte);
        values[i + k] = scale * static_cast<float>(static_cast<int8_t>(byte));
      } else if (k < 16) {
        bytes.push_back(byte);
        values[i + k] = scale * static_cast<float>(byte & 15) + min;
        values[i + k + 16] = scale * static_cast<float>(byte >> 4) + min;
      }
    }
  }

  std::vector<float> values;  // [kRows, kColumns]
  std::vector<uint8_t> bytes;
  GgufTensor tensor;
};

std::vector<float> RandomInput(int rows, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> in(static_cast<size_t>(rows * kColumns));
  for (float& x : in) x = normal(random);
  return in;
}

class Product : public testing::TestWithParam<GgmlType> {
 protected:
  static std::vector<float> Multiply(const GgufTensor& tensor, std::vector<float> in, CpuIsa isa,
                                     int threads, QuantizedRows& quantised) {
    ThreadPool pool(threads, {});
    const auto weight = CpuWeight::Pack(tensor, pool);
    EXPECT_TRUE(weight.ok()) << weight.status();
    const int rows = static_cast<int>(in.size()) / kColumns;
    const Tensor input{in.data(), rows, kColumns};
    if ((*weight)->quantised()) QuantizeRows(isa, pool, input, quantised);
    std::vector<float> out(static_cast<size_t>(rows * kRows));
    MultiplyWeight(isa, pool, input, quantised, **weight, {out.data(), rows, kRows});
    return out;
  }
};

TEST_P(Product, IsTheSumOverTheWeightsThatTheFileMeans) {
  const RandomTensor random(GetParam(), 1);
  const std::vector<float> in = RandomInput(7, 2);
  QuantizedRows quantised;
  const std::vector<float> out = Multiply(random.tensor, in, CpuIsa::kPortable, 1, quantised);
  for (size_t row = 0; row < 7; ++row) {
    for (size_t n = 0; n < kRows; ++n) {
      double expected = 0;
      double size = 0;
      for (size_t k = 0; k < kColumns; ++k) {
        double x = in[row * kColumns + k];
        if (!quantised.values.empty()) {
          x = double{quantised.scales[row * 3 + k / 32]} * quantised.values[row * kColumns + k];
        }
        expected += x * random.values[n * kColumns + k];
        size += std::fabs(x * random.values[n * kColumns + k]);
      }
      EXPECT_NEAR(out[row * kRows + n], expected, size * 1e-6);
    }
  }
}

TEST_P(Product, HasTheSameBitsForAnyRowsThreadsAndInstructionSet) {
  const RandomTensor random(GetParam(), 3);
  const std::vector<float> in = RandomInput(11, 4);
  QuantizedRows scratch;
  const std::vector<float> expected = Multiply(random.tensor, in, CpuIsa::kPortable, 1, scratch);
  for (const CpuIsa isa : {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (!CpuHas(isa)) continue;
    const std::vector<float> all = Multiply(random.tensor, in, isa, 3, scratch);
    EXPECT_EQ(std::memcmp(all.data(), expected.data(), all.size() * sizeof(float)), 0);
    for (int row = 0; row < 11; ++row) {
      const auto first = in.begin() + row * kColumns;
      const std::vector<float> one =
          Multiply(random.tensor, {first, first + kColumns}, isa, 2, scratch);
      EXPECT_EQ(std::memcmp(one.data(), &expected[static_cast<size_t>(row * kRows)],
                            kRows * sizeof(float)),
                0);
    }
  }
}

TEST_P(Product, WeightsComeBackAsTheFileMeansThem) {
  const RandomTensor random(GetParam(), 5);
  ThreadPool pool(2, {});
  const auto weight = CpuWeight::Pack(random.tensor, pool);
  ASSERT_TRUE(weight.ok()) << weight.status();
  std::vector<float> row(kColumns);
  for (int n = 0; n < kRows; ++n) {
    (*weight)->Dequantise(n, row.data());
    for (size_t k = 0; k < kColumns; ++k) {
      const float expected = random.values[static_cast<size_t>(n) * kColumns + k];
      EXPECT_NEAR(row[k], expected, std::fabs(expected) * 1e-6 + 1e-6);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Product,
                         testing::Values(GgmlType::kF32, GgmlType::kF16, GgmlType::kBf16,
                                         GgmlType::kQ8_0, GgmlType::kQ4_0, GgmlType::kQ4_1),
                         [](const auto& type) { return GgmlTypeName(type.param); });

TEST(QuantizeRows, RoundsToNearestEvenWithinABlocksMaximum) {
  ThreadPool pool(1, {});
  std::vector<float> in(64, 0.0f);
  in[0] = -127.0f;
  in[1] = 0.5f;
  in[2] = 1.5f;
  in[3] = -2.5f;
  in[4] = 126.6f;
  for (const CpuIsa isa : {CpuIsa::kPortable, CpuIsa::kAvx2, CpuIsa::kAvx512}) {
    if (!CpuHas(isa)) continue;
    QuantizedRows out;
    QuantizeRows(isa, pool, {in.data(), 1, 64}, out);
    EXPECT_THAT(std::vector<int16_t>(out.values.begin(), out.values.begin() + 6),
                testing::ElementsAre(-127, 0, 2, -2, 127, 0));
    EXPECT_EQ(out.scales[0], 1.0f);
    EXPECT_EQ(out.sums[0], 0);
    EXPECT_EQ(out.scales[1], 0.0f);  // a block of zeros
  }
}

TEST(QuantizeRows, StaysInRangeWhateverTheMagnitude) {
  ThreadPool pool(1, {});
  std::mt19937 random(1);
  for (int exponent = -140; exponent < 127; ++exponent) {
    std::vector<float> in(32);
    for (float& x : in) {
      x = std::ldexp(static_cast<float>(random() % 20001) / 10000.0f - 1.0f, exponent);
    }
    QuantizedRows out;
    QuantizeRows(CpuIsa::kPortable, pool, {in.data(), 1, 32}, out);
    for (size_t k = 0; k < 32; ++k) {
      EXPECT_LE(std::abs(out.values[k]), 127);
      EXPECT_NEAR(out.scales[0] * static_cast<float>(out.values[k]), in[k],
                  std::max(out.scales[0] * 0.51f, 1e-30f));
    }
  }
}

TEST(CpuWeight, RefusesOtherTypesByName) {
  ThreadPool pool(1, {});
  const auto weight = CpuWeight::Pack({"blk.0.attn_q.weight", GgmlType::kQ5_0, {32, 16}, {}}, pool);
  EXPECT_EQ(weight.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(weight.status().message()),
              testing::AllOf(testing::HasSubstr("blk.0.attn_q.weight"), testing::HasSubstr("Q5_0"),
                             testing::HasSubstr("Q4_1")));
}

}  // namespace
}  // namespace baton
