#include "common/backend/cpu/kernels/kernels.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/instruction_sets.h"

namespace baton {
namespace {

TEST(Kernels, EverySetHasAllItsOwnKernels) {
  const CpuKernels* const tables[] = {&kPortableKernels, &kAvx2Kernels, &kAvx2VnniKernels,
                                      &kAvx512Kernels};
  for (size_t i = 0; i < std::size(kAllCpuIsas); ++i) {
    const CpuKernels& kernels = KernelsFor(kAllCpuIsas[i]);
    EXPECT_EQ(&kernels, tables[i]) << CpuIsaName(kAllCpuIsas[i]);
    EXPECT_NE(kernels.prepare_input, nullptr);
    EXPECT_NE(kernels.product, nullptr);
    EXPECT_NE(kernels.rotate_and_append, nullptr);
    EXPECT_NE(kernels.attend_tile, nullptr);
    EXPECT_NE(kernels.attend_row_segment, nullptr);
    EXPECT_NE(kernels.merge_row_segments, nullptr);
    for (size_t other = 0; other < i; ++other) {
      EXPECT_NE(kernels.product, KernelsFor(kAllCpuIsas[other]).product)
          << CpuIsaName(kAllCpuIsas[i]);
    }
  }
}

// Inputs of usual size, tiny ones, huge ones, and those of which exp overflows.
std::vector<float> Values(int count, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> values;
  for (int i = 0; i < count; ++i) {
    const int exponent = i % 5 == 0 ? static_cast<int>(random() % 120) - 100 : 0;
    values.push_back(std::ldexp(normal(random), exponent));
  }
  return values;
}

// The blocks and floats that the input becomes, as bytes.
std::vector<uint8_t> Prepared(CpuIsa isa, ProductInputArgs::Kind kind, GateFunction function,
                              int rows, int columns, int terms) {
  std::vector<float> in = Values(rows * columns, 1);
  const std::vector<float> other = Values(rows * columns, 2);
  std::vector<float> floats(in.size());
  const size_t blocks = in.size() / kQuantBlock * static_cast<size_t>(terms);
  std::vector<QuantizedBlock> quantised(blocks);
  if (blocks > 0)
    std::memset(static_cast<void*>(quantised.data()), 0, blocks * sizeof(QuantizedBlock));
  const bool whole_blocks = columns % kQuantBlock == 0;
  KernelsFor(isa).prepare_input({.kind = kind,
                                 .function = function,
                                 .in = {in.data(), rows, columns},
                                 .other = other.data(),
                                 .epsilon = 1e-5f,
                                 .terms = terms,
                                 .blocks = whole_blocks ? quantised.data() : nullptr,
                                 .block_stride = columns / kQuantBlock,
                                 .floats = floats.data(),
                                 .float_stride = columns},
                                0, rows);
  std::vector<uint8_t> bytes(floats.size() * sizeof(float) + blocks * sizeof(QuantizedBlock));
  std::memcpy(bytes.data(), floats.data(), floats.size() * sizeof(float));
  if (blocks > 0)
    std::memcpy(bytes.data() + floats.size() * sizeof(float), quantised.data(),
                blocks * sizeof(QuantizedBlock));
  return bytes;
}

// Products, rotations and attention have such a test of their own.
TEST(Kernels, PrepareInputsWithThePortableBits) {
  using Kind = ProductInputArgs::Kind;
  const std::pair<Kind, GateFunction> inputs[] = {{Kind::kPlain, GateFunction::kSilu},
                                                  {Kind::kNorm, GateFunction::kSilu},
                                                  {Kind::kGated, GateFunction::kSilu},
                                                  {Kind::kGated, GateFunction::kGeluTanh},
                                                  {Kind::kGated, GateFunction::kClampedSilu}};
  for (const auto& [kind, function] : inputs) {
    for (const int columns : {32, 96, 544, 37}) {  // 37: no block's size and no vector's
      for (const int terms : {1, 2}) {
        const std::vector<uint8_t> expected =
            Prepared(CpuIsa::kPortable, kind, function, 5, columns, terms);
        for (const CpuIsa isa : InstructionSets()) {
          EXPECT_TRUE(Prepared(isa, kind, function, 5, columns, terms) == expected)
              << CpuIsaName(isa) << ", kind " << static_cast<int>(kind) << ", function "
              << static_cast<int>(function) << ", " << columns << " columns, " << terms << " terms";
        }
      }
    }
  }
}

}  // namespace
}  // namespace baton
