#include "common/backend/cpu/product/product.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "common/backend/cpu/kernels/kernels.h"
#include "common/backend/cpu/product/cpu_weight.h"
#include "common/base/float_types.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/random_values.h"
#include "tests/support/same_bytes.h"

namespace baton {
namespace {

constexpr int kColumns = 768;  // more columns than a panel of blocks
constexpr int kRows = 37;      // not a multiple of 16

struct TypeCase {
  GgmlType type;
  int columns;                    // columns of the file's block
  size_t bytes;                   // bytes of the file's block
  std::vector<size_t> half_bits;  // offsets of the block's F16 values
};
const TypeCase kTypes[] = {
    {GgmlType::kF32, 1, 4, {}},          {GgmlType::kF16, 1, 2, {0}},
    {GgmlType::kBf16, 1, 2, {}},         {GgmlType::kQ8_0, 32, 34, {0}},
    {GgmlType::kQ4_0, 32, 18, {0}},      {GgmlType::kQ4_1, 32, 20, {0, 2}},
    {GgmlType::kQ5_0, 32, 22, {0}},      {GgmlType::kQ5_1, 32, 24, {0, 2}},
    {GgmlType::kQ4_K, 256, 144, {0, 2}}, {GgmlType::kQ5_K, 256, 176, {0, 2}},
    {GgmlType::kQ6_K, 256, 210, {208}},  {GgmlType::kMxfp4, 32, 17, {}},
};

// A file's tensor with random codes and scales.
struct RandomTensor {
  RandomTensor(const TypeCase& type, uint32_t seed)
      : bytes(static_cast<size_t>(kRows * kColumns / type.columns) * type.bytes) {
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, 1);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
    for (size_t start = 0; start < bytes.size(); start += type.bytes) {
      if (type.type == GgmlType::kF32) Put(start, normal(random));
      if (type.type == GgmlType::kBf16) Put(start, F32ToBf16(normal(random)));
      if (type.type == GgmlType::kMxfp4) bytes[start] = static_cast<uint8_t>(120 + random() % 8);
      for (const size_t offset : type.half_bits) Put(start + offset, F32ToF16(normal(random)));
    }
    tensor = {"random.weight", type.type, {kColumns, kRows}, bytes};
  }

  template <class T>
  void Put(size_t offset, T value) {
    std::memcpy(&bytes[offset], &value, sizeof(value));
  }

  std::vector<uint8_t> bytes;
  GgufTensor tensor;
};

class Product : public testing::TestWithParam<TypeCase> {
 protected:
  static std::vector<float> Multiply(const GgufTensor& tensor, std::vector<float> in, CpuIsa isa,
                                     int threads, ProductInput& input, int terms = 1) {
    ThreadPool pool(threads, {});
    CpuMemory memory;
    const auto weight = CpuWeight::Pack(tensor, pool, memory);
    EXPECT_TRUE(weight.ok()) << weight.status();
    const int rows = static_cast<int>(in.size()) / kColumns;
    const bool quantised = (*weight)->quantised();
    input.Prepare(KernelsFor(isa), pool, {.in = {in.data(), rows, kColumns}, .terms = terms},
                  quantised, !quantised);
    std::vector<float> out(static_cast<size_t>(rows * kRows));
    std::vector<ProductScratch> scratch(static_cast<size_t>(threads));
    MultiplyWeights(KernelsFor(isa), pool, input, {{weight->get(), {out.data(), rows, kRows}}},
                    scratch);
    return out;
  }
};

// fma(sum, scale, out): what a scale of 1 adds has the bits of a plain addition.
TEST_P(Product, AnOutputThatAccumulatesAddsTheScaledSum) {
  const RandomTensor random(GetParam(), 1);
  CpuMemory memory;
  for (const int rows : {1, 20}) {
    const auto count = static_cast<size_t>(rows);
    std::vector<float> in = NormalValues(count * kColumns, 2);
    const std::vector<float> before = NormalValues(count * kRows, 3);
    for (const CpuIsa isa : InstructionSets()) {
      ProductInput input;
      const std::vector<float> sums = Multiply(random.tensor, in, isa, 1, input);
      ThreadPool pool(2, {});
      const auto weight = CpuWeight::Pack(random.tensor, pool, memory);
      ASSERT_TRUE(weight.ok()) << weight.status();
      input.Prepare(KernelsFor(isa), pool, {.in = {in.data(), rows, kColumns}},
                    (*weight)->quantised(), !(*weight)->quantised());
      for (const float scale : {1.0f, 0.22f}) {
        std::vector<float> out = before;
        std::vector<ProductScratch> scratch(2);
        MultiplyWeights(KernelsFor(isa), pool, input,
                        {{weight->get(), {out.data(), rows, kRows}, true, scale}}, scratch);
        for (size_t i = 0; i < out.size(); ++i) {
          ASSERT_EQ(out[i], std::fma(sums[i], scale, before[i])) << CpuIsaName(isa) << ", " << i;
          ASSERT_EQ(scale != 1 || out[i] == before[i] + sums[i], true);
        }
      }
    }
  }
}

TEST_P(Product, IsTheSumOverTheWeightsThatTheFileMeans) {
  const RandomTensor random(GetParam(), 1);
  ThreadPool pool(1, {});
  CpuMemory memory;
  const auto weight = CpuWeight::Pack(random.tensor, pool, memory);
  ASSERT_TRUE(weight.ok()) << weight.status();
  for (const int terms : {1, 2}) {
    const std::vector<float> in = NormalValues(7 * kColumns, 2);
    ProductInput input;
    const std::vector<float> out = Multiply(random.tensor, in, CpuIsa::kPortable, 1, input, terms);
    std::vector<float> weights(kColumns);
    for (int n = 0; n < kRows; ++n) {
      (*weight)->Dequantise(n, weights.data());
      for (int row = 0; row < 7; ++row) {
        double expected = 0;
        double size = 0;
        for (int k = 0; k < kColumns; ++k) {
          double x = in.data()[row * kColumns + k];
          if ((*weight)->quantised()) {
            constexpr int kBlocks = kColumns / 32;
            x = 0;
            for (int term = 0; term < terms; ++term) {
              const QuantizedBlock& block = input.blocks()[(row * terms + term) * kBlocks + k / 32];
              x += double{block.scale} * block.values[k % 32];
            }
          }
          expected += x * weights[static_cast<size_t>(k)];
          size += std::fabs(x * weights[static_cast<size_t>(k)]);
        }
        ASSERT_NEAR(out[static_cast<size_t>(row * kRows + n)], expected, size * 2e-6)
            << "terms " << terms << ", row " << row << ", output " << n;
      }
    }
  }
}

TEST_P(Product, HasTheSameBitsForAnyRowsThreadsAndInstructionSet) {
  const RandomTensor random(GetParam(), 3);
  constexpr int kMost = 27;  // two whole tiles of the widest, and a rest
  const std::vector<float> in = NormalValues(kMost * kColumns, 4);
  ProductInput scratch;
  for (const int terms : {1, 2}) {
    const std::vector<float> expected =
        Multiply(random.tensor, in, CpuIsa::kPortable, 1, scratch, terms);
    for (const CpuIsa isa : InstructionSets()) {
      for (int rows = 1; rows <= kMost; ++rows) {
        const std::vector<float> some =
            Multiply(random.tensor, {in.begin(), in.begin() + rows * kColumns}, isa,
                     /*threads=*/1 + rows % 3, scratch, terms);
        ASSERT_EQ(std::memcmp(some.data(), expected.data(), some.size() * sizeof(float)), 0)
            << CpuIsaName(isa) << ", " << rows << " rows, " << terms << " terms";
        if (isa == CpuIsa::kPortable && rows == 5) break;  // slow
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, Product, testing::ValuesIn(kTypes),
                         [](const auto& type) { return GgmlTypeName(type.param.type); });

TEST(MultiplyWeights, AddsToTheOutputWhereAsked) {
  const RandomTensor random(kTypes[5], 5);
  ThreadPool pool(2, {});
  CpuMemory memory;
  const auto weight = CpuWeight::Pack(random.tensor, pool, memory);
  ASSERT_TRUE(weight.ok()) << weight.status();
  std::vector<float> in = NormalValues(9 * kColumns, 6);
  ProductInput input;
  std::vector<ProductScratch> scratch(2);
  for (const CpuIsa isa : InstructionSets()) {
    input.Prepare(KernelsFor(isa), pool, {.in = {in.data(), 9, kColumns}}, true, false);
    std::vector<float> plain(9 * kRows);
    std::vector<float> added(9 * kRows, 0.75f);
    const Tensor plain_out{plain.data(), 9, kRows};
    const Tensor added_out{added.data(), 9, kRows};
    // Several outputs in one operation.
    MultiplyWeights(KernelsFor(isa), pool, input,
                    {{weight->get(), plain_out}, {weight->get(), added_out, true}}, scratch);
    for (size_t i = 0; i < plain.size(); ++i) ASSERT_EQ(added[i], 0.75f + plain[i]);
  }
}

// Such rows do not follow one another without a gap (FloatStride, BlockStride).
TEST(MultiplyWeights, GivesRowsOfWholePagesTheBitsThatEachHasAlone) {
  constexpr int kPage = 2048;  // columns: 8 KiB of floats and two panels, or 4 KiB of blocks
  constexpr int kMany = 37;    // more than do without a panel
  const std::vector<float> floats = NormalValues(static_cast<size_t>(kRows) * kPage, 7);
  std::vector<uint8_t> float_bytes(floats.size() * sizeof(float));
  std::memcpy(float_bytes.data(), floats.data(), float_bytes.size());
  std::mt19937 random(9);
  std::vector<uint8_t> code_bytes(static_cast<size_t>(kRows) * kPage / 256 * 210);
  for (uint8_t& byte : code_bytes) byte = static_cast<uint8_t>(random());
  for (size_t at = 208; at < code_bytes.size(); at += 210) code_bytes[at + 1] = 0x1c;  // 2^-8
  ThreadPool pool(1, {});
  CpuMemory memory;
  std::vector<float> in = NormalValues(kMany * kPage, 8);
  std::vector<ProductScratch> scratch(1);
  for (const bool quantised : {false, true}) {
    const auto weight = CpuWeight::Pack({"rows.weight",
                                         quantised ? GgmlType::kQ6_K : GgmlType::kF32,
                                         {kPage, kRows},
                                         quantised ? code_bytes : float_bytes},
                                        pool, memory);
    ASSERT_TRUE(weight.ok()) << weight.status();
    for (const CpuIsa isa : InstructionSets()) {
      const auto multiply = [&](int row, int rows, int terms) {
        ProductInput input;
        input.Prepare(KernelsFor(isa), pool,
                      {.in = {&in[static_cast<size_t>(row) * kPage], rows, kPage}, .terms = terms},
                      quantised, !quantised);
        std::vector<float> out(static_cast<size_t>(rows * kRows));
        MultiplyWeights(KernelsFor(isa), pool, input, {{weight->get(), {out.data(), rows, kRows}}},
                        scratch);
        return out;
      };
      for (const auto& [rows, terms] :
           {std::pair(3, 1), std::pair(kMany, 1), std::pair(kMany, 2)}) {
        const std::vector<float> together = multiply(0, rows, terms);
        for (int row = 0; row < rows; ++row) {
          const std::vector<float> alone = multiply(row, 1, terms);
          ASSERT_TRUE(SameBytes(alone.data(), together.data() + row * kRows, kRows))
              << CpuIsaName(isa) << ", row " << row << " of " << rows << ", terms " << terms;
        }
      }
    }
  }
}

// Sixteen equal rows of one block, all of whose weights are 2^(exponent - 127).
std::vector<uint8_t> Mxfp4Ones(uint8_t exponent) {
  std::vector<uint8_t> bytes;
  for (int row = 0; row < kLanes; ++row) {
    bytes.push_back(exponent);
    bytes.insert(bytes.end(), 16, 0x22);
  }
  return bytes;
}

TEST(MultiplyWeights, TakesEveryExponentOfMxfp4FromTheSmallestToTheLargest) {
  ThreadPool pool(1, {});
  CpuMemory memory;
  std::vector<ProductScratch> scratch(1);
  for (const int exponent : {0, 1, 2, 127, 253, 254}) {
    const std::vector<uint8_t> bytes = Mxfp4Ones(static_cast<uint8_t>(exponent));
    const auto weight =
        CpuWeight::Pack({"ones.weight", GgmlType::kMxfp4, {32, kLanes}, bytes}, pool, memory);
    ASSERT_TRUE(weight.ok()) << weight.status();
    const int power = exponent < 127 ? 90 : -60;  // so that the sum is a normal number
    for (const int rows : {1, 17}) {              // without a panel, and with one
      std::vector<float> in(static_cast<size_t>(rows) * 32, std::ldexp(127.0f, power));
      for (const CpuIsa isa : InstructionSets()) {
        ProductInput input;
        input.Prepare(KernelsFor(isa), pool, {.in = {in.data(), rows, 32}}, true, false);
        std::vector<float> out(static_cast<size_t>(rows * kLanes));
        MultiplyWeights(KernelsFor(isa), pool, input, {{weight->get(), {out.data(), rows, kLanes}}},
                        scratch);
        EXPECT_THAT(out, testing::Each(std::ldexp(127.0f * 32, power + exponent - 127)))
            << CpuIsaName(isa) << ", exponent " << exponent;
      }
    }
  }
}

TEST(CpuWeight, RefusesAnMxfp4ScaleThatIsNoNumber) {
  ThreadPool pool(1, {});
  CpuMemory memory;
  std::vector<uint8_t> bytes = Mxfp4Ones(127);
  bytes[15 * 17] = 255;  // the last row's
  const auto weight = CpuWeight::Pack(
      {"blk.0.ffn_up_exps.weight", GgmlType::kMxfp4, {32, kLanes}, bytes}, pool, memory);
  EXPECT_EQ(weight.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(weight.status().message()),
              testing::AllOf(testing::HasSubstr("blk.0.ffn_up_exps.weight"),
                             testing::HasSubstr("exponent 255")));
}

TEST(CpuWeight, RefusesOtherTypesByName) {
  ThreadPool pool(1, {});
  CpuMemory memory;
  const auto weight = CpuWeight::Pack(
      {"blk.0.attn_q.weight", static_cast<GgmlType>(10), {256, 16}, {}}, pool, memory);
  EXPECT_EQ(weight.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(weight.status().message()),
              testing::AllOf(testing::HasSubstr("blk.0.attn_q.weight"), testing::HasSubstr("Q2_K"),
                             testing::HasSubstr("Q4_1")));
}

}  // namespace
}  // namespace baton
