#include "common/backend/cpu/product/weight_packing.h"

#include <cmath>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/backend/cpu/simd/lanes.h"
#include "common/base/float_types.h"

namespace baton {
namespace {

// A block of the file and what the format says that its values are.
struct FileBlock {
  std::vector<uint8_t> bytes;
  std::vector<float> values;
};

void Put16(std::vector<uint8_t>& bytes, size_t at, uint16_t value) {
  std::memcpy(&bytes[at], &value, sizeof(value));
}

// Nibble of column k where the low ones come first: byte k % 16, its upper half from column 16 on.
unsigned Nibble(const uint8_t* bytes, int k) {
  return k < 16 ? bytes[k] & 15u : bytes[k - 16] >> 4;
}

// Random codes under the scale 0.25 and the minimum -1.5, both exact in F16. The offsets are those
// of ggml's struct block_q*.
FileBlock RandomBlock(GgmlType type, uint32_t seed) {
  std::mt19937 random(seed);
  FileBlock block;
  block.bytes.resize(GgmlBlockOf(type)->bytes);
  for (uint8_t& byte : block.bytes) byte = static_cast<uint8_t>(random());
  const float scale = 0.25f;
  const float min = -1.5f;
  std::vector<uint8_t>& bytes = block.bytes;
  const bool has_min = type == GgmlType::kQ4_1 || type == GgmlType::kQ5_1;
  Put16(bytes, 0, F32ToF16(scale));
  if (has_min) Put16(bytes, 2, F32ToF16(min));
  const uint8_t* rest = bytes.data() + (has_min ? 4 : 2);
  uint32_t fifths = 0;
  const bool five = type == GgmlType::kQ5_0 || type == GgmlType::kQ5_1;
  if (five) std::memcpy(&fifths, rest, sizeof(fifths));
  const uint8_t* nibbles = rest + (five ? 4 : 0);
  for (int k = 0; k < 32; ++k) {
    if (type == GgmlType::kQ8_0) {
      block.values.push_back(scale * static_cast<float>(static_cast<int8_t>(rest[k])));
      continue;
    }
    const auto code = static_cast<float>(Nibble(nibbles, k) | (fifths >> k & 1u) << 4);
    block.values.push_back(has_min ? scale * code + min : scale * (code - (five ? 16 : 8)));
  }
  return block;
}

constexpr GgmlType kBlockTypes[] = {GgmlType::kQ4_0, GgmlType::kQ4_1, GgmlType::kQ5_0,
                                    GgmlType::kQ5_1, GgmlType::kQ8_0};

TEST(WeightPacking, EveryLaneGivesBackTheValuesOfItsOwnRow) {
  constexpr int kThreeBlocks = 96;
  for (const GgmlType type : kBlockTypes) {
    std::vector<uint8_t> group(PackedGroupBytes(type, kThreeBlocks), 0xee);
    std::vector<std::vector<float>> rows;
    for (int lane = 0; lane < kLanes; ++lane) {
      std::vector<uint8_t> file;
      std::vector<float>& values = rows.emplace_back();
      for (int b = 0; b < kThreeBlocks / 32; ++b) {
        const FileBlock block = RandomBlock(type, static_cast<uint32_t>(lane * 10 + b));
        file.insert(file.end(), block.bytes.begin(), block.bytes.end());
        values.insert(values.end(), block.values.begin(), block.values.end());
      }
      PackRow(type, file.data(), kThreeBlocks, lane, group.data());
    }
    for (int lane = 0; lane < kLanes; ++lane) {
      std::vector<float> out(kThreeBlocks);
      DequantiseRow(type, group.data(), kThreeBlocks, lane, out.data());
      EXPECT_EQ(out, rows[static_cast<size_t>(lane)]) << GgmlTypeName(type) << ", lane " << lane;
    }
  }
}

TEST(WeightPacking, Mxfp4HasTheMagnitudesAndPowersOfTwoOfItsFormat) {
  constexpr float kMagnitudes[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  for (const int exponent : {0, 1, 2, 126, 127, 254}) {
    std::vector<uint8_t> file = {static_cast<uint8_t>(exponent)};
    for (unsigned j = 0; j < 16; ++j) {  // column j has code j, column 16 + j has code 15 - j
      file.push_back(static_cast<uint8_t>(j | (15 - j) << 4));
    }
    ASSERT_TRUE(ValidRow(GgmlType::kMxfp4, file.data(), 32));
    std::vector<uint8_t> group(PackedGroupBytes(GgmlType::kMxfp4, 32), 0xee);
    PackRow(GgmlType::kMxfp4, file.data(), 32, /*lane=*/5, group.data());
    std::vector<float> out(32);
    DequantiseRow(GgmlType::kMxfp4, group.data(), 32, /*lane=*/5, out.data());
    for (int k = 0; k < 32; ++k) {
      const int code = k < 16 ? k : 31 - k;
      const float magnitude = std::ldexp(kMagnitudes[code % 8], exponent - 127);
      EXPECT_EQ(out[static_cast<size_t>(k)], code < 8 ? magnitude : -magnitude)
          << "exponent " << exponent << ", column " << k;
    }
  }
  const std::vector<uint8_t> ones(2 * 17, 255);
  EXPECT_FALSE(ValidRow(GgmlType::kMxfp4, ones.data(), 64));
  EXPECT_TRUE(ValidRow(GgmlType::kQ8_0, ones.data(), 32));
}

template <class Element>
void ExpectFloats(GgmlType type, const std::vector<Element>& elements,
                  const std::vector<float>& expected) {
  const int columns = static_cast<int>(elements.size());
  std::vector<uint8_t> group(PackedGroupBytes(type, elements.size()));
  for (const int lane : {0, 7, 15}) {
    PackRow(type, reinterpret_cast<const uint8_t*>(elements.data()), columns, lane, group.data());
    std::vector<float> out(elements.size());
    DequantiseRow(type, group.data(), columns, lane, out.data());
    EXPECT_EQ(out, expected) << GgmlTypeName(type) << ", lane " << lane;
  }
}

TEST(WeightPacking, FloatsComeBackExactlyForAnyNumberOfColumns) {
  const std::vector<float> floats = {0.1f, -2.5f, 1e-30f};
  ExpectFloats<float>(GgmlType::kF32, floats, floats);
  ExpectFloats<uint16_t>(GgmlType::kF16, {F32ToF16(0.5f), F32ToF16(-65504), 1},
                         {0.5f, -65504.0f, 0x1p-24f});
  ExpectFloats<uint16_t>(GgmlType::kBf16, {F32ToBf16(0.5f), F32ToBf16(-3e38f)},
                         {0.5f, Bf16ToF32(F32ToBf16(-3e38f))});
}

// Superblocks of 256 columns. In each all codes are equal, and so are all small scales.
TEST(WeightPacking, KQuantsTakeScalesAndMinimaOfTheirOwnSubBlock) {
  std::vector<uint8_t> q4(144, 0x33);
  Put16(q4, 0, F32ToF16(0.5f));
  Put16(q4, 2, F32ToF16(2.0f));
  // Sub-blocks 0 to 3 have six bits of scale at 4 + b and of min at 8 + b. The others have four
  // bits each at 12 + b - 4, and their upper two in the upper bits of the first ones.
  for (int b = 0; b < 4; ++b) {
    q4[static_cast<size_t>(4 + b)] = static_cast<uint8_t>(b + 1);
    q4[static_cast<size_t>(8 + b)] = static_cast<uint8_t>(b + 2);
    q4[static_cast<size_t>(12 + b)] = static_cast<uint8_t>((b + 5) | (b + 6) << 4);
  }
  std::vector<uint8_t> group(PackedGroupBytes(GgmlType::kQ4_K, 256));
  PackRow(GgmlType::kQ4_K, q4.data(), 256, 3, group.data());
  std::vector<float> out(256);
  DequantiseRow(GgmlType::kQ4_K, group.data(), 256, 3, out.data());
  for (int k = 0; k < 256; ++k) {
    const auto b = static_cast<float>(k / 32);
    EXPECT_EQ(out[static_cast<size_t>(k)], 0.5f * (b + 1) * 3 - 2.0f * (b + 2)) << k;
  }

  std::vector<uint8_t> q6(210, 0);  // codes 0 stand for -32
  for (int half = 0; half < 16; ++half)
    q6[static_cast<size_t>(192 + half)] = static_cast<uint8_t>(half - 8);
  Put16(q6, 208, F32ToF16(0.5f));
  group.resize(PackedGroupBytes(GgmlType::kQ6_K, 256));
  PackRow(GgmlType::kQ6_K, q6.data(), 256, 15, group.data());
  DequantiseRow(GgmlType::kQ6_K, group.data(), 256, 15, out.data());
  for (int k = 0; k < 256; ++k) {
    EXPECT_EQ(out[static_cast<size_t>(k)], 0.5f * static_cast<float>(k / 16 - 8) * -32) << k;
  }
}

TEST(WeightPacking, AGroupHasSixteenRowsOfWholeBlocks) {
  for (const GgmlType type : kBlockTypes) {
    EXPECT_EQ(PackedGroupBytes(type, 64), 16 * 2 * GgmlBlockOf(type)->bytes) << GgmlTypeName(type);
    EXPECT_EQ(PackedGroupBytes(type, 33), 0u) << GgmlTypeName(type);
  }
  for (const GgmlType type : {GgmlType::kQ4_K, GgmlType::kQ5_K, GgmlType::kQ6_K}) {
    EXPECT_GT(PackedGroupBytes(type, 512), 0u);
    EXPECT_EQ(PackedGroupBytes(type, 128), 0u);
  }
  EXPECT_EQ(PackedGroupBytes(GgmlType::kF32, 3), 16u * 3 * 4);
  EXPECT_EQ(PackedGroupBytes(static_cast<GgmlType>(10), 256), 0u);  // Q2_K
}

}  // namespace
}  // namespace baton
