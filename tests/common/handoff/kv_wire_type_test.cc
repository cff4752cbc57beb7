#include "common/handoff/kv_wire_type.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "common/base/float_types.h"
#include "common/base/kv_type_name.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/stored_head.h"

namespace baton {
namespace {

using Bytes = std::vector<uint8_t>;

constexpr KvType kDtypes[] = {KvType::kF32, KvType::kF16, KvType::kBf16};
constexpr KvType kQuantised[] = {KvType::kInt8, KvType::kFp8, KvType::kInt4};
constexpr float kLeastInt8Head = 127 * std::numeric_limits<float>::min();

KvLayout Layout(KvType dtype, int kv_heads, int head_dim) {
  return {
      .layers = 1, .kv_heads = kv_heads, .head_dim = head_dim, .block_size = 16, .dtype = dtype};
}

float Load(KvType dtype, const Bytes& bytes, size_t index) {
  uint16_t half;
  float value;
  if (dtype == KvType::kF32) {
    std::memcpy(&value, &bytes[index * 4], 4);
    return value;
  }
  std::memcpy(&half, &bytes[index * 2], 2);
  return dtype == KvType::kF16 ? F16ToF32(half) : Bf16ToF32(half);
}

Bytes Store(KvType dtype, const std::vector<float>& values) {
  Bytes bytes;
  for (const float value : values) {
    const uint32_t bits = dtype == KvType::kF32   ? std::bit_cast<uint32_t>(value)
                          : dtype == KvType::kF16 ? F32ToF16(value)
                                                  : F32ToBf16(value);
    for (int shift = 0; shift < (dtype == KvType::kF32 ? 32 : 16); shift += 8) {
      bytes.push_back(static_cast<uint8_t>(bits >> shift));
    }
  }
  return bytes;
}

struct Wire {
  Bytes values;
  Bytes scales;
  bool ok = false;
};

// Encodes from and to addresses without any alignment.
Wire Encode(const KvWireFormat& format, const Bytes& rows, size_t count,
            const Bytes& row_scales = {}) {
  Wire wire{Bytes(count * format.value_bytes() + 1), Bytes(count * format.scale_bytes() + 1)};
  Bytes shifted(1, 0);
  shifted.insert(shifted.end(), rows.begin(), rows.end());
  wire.ok = format.Encode(&shifted[1], row_scales.data(), count, &wire.values[1], &wire.scales[1]);
  wire.values.erase(wire.values.begin());
  wire.scales.erase(wire.scales.begin());
  return wire;
}

Bytes Decode(const KvWireFormat& format, const Wire& wire, size_t count, size_t row_bytes) {
  Bytes rows(count * row_bytes);
  format.Decode(wire.values.data(), wire.scales.data(), count, rows.data(), nullptr);
  return rows;
}

// Heads in a quantised type: codes, scales, and the values that they stand for.
struct Heads {
  Bytes codes;
  Bytes scales;
  std::vector<float> values;
};
Heads StoreAll(KvType dtype, const std::vector<float>& values, int head_dim) {
  Heads heads;
  for (size_t i = 0; i < values.size(); i += static_cast<size_t>(head_dim)) {
    const StoredHead head = StoreHead(dtype, &values[i], head_dim);
    heads.codes.insert(heads.codes.end(), head.codes.begin(), head.codes.end());
    heads.scales.insert(heads.scales.end(), head.scale_bytes.begin(), head.scale_bytes.end());
    heads.values.insert(heads.values.end(), head.values.begin(), head.values.end());
  }
  return heads;
}

TEST(KvType, NamesAreThoseOfTheFlagsAndOthersAreRefused) {
  for (const KvType type : kAllKvTypes) {
    const auto back = KvTypeFromName(KvTypeName(type));
    ASSERT_TRUE(back.ok());
    EXPECT_EQ(*back, type);
  }
  for (const char* name : {"", "auto", "fp8_e5m2", "INT8", "f16 "}) {
    EXPECT_FALSE(KvTypeFromName(name).ok()) << name;
  }
}

TEST(KvType, TheCachesOwnTypeNeedsNoConversionAndInt8HalvesAHalf) {
  for (const KvType dtype : kDtypes) {
    const KvLayout layout = Layout(dtype, 3, 64);
    const KvWireFormat own(layout, dtype);
    EXPECT_FALSE(own.converts());
    EXPECT_EQ(own.row_bytes(), layout.row_bytes());
    const KvWireFormat int8(layout, KvType::kInt8);
    EXPECT_TRUE(int8.converts());
    EXPECT_EQ(int8.value_bytes(), 3u * 64);
    EXPECT_EQ(int8.scale_bytes(), 3u * 4);
  }
}

TEST(KvType, AQuantisedCacheLiesOnTheWireAsInMemory) {
  for (const KvType dtype : kQuantised) {
    const KvLayout layout = Layout(dtype, 3, 64);
    const KvWireFormat own(layout, dtype);
    EXPECT_FALSE(own.converts());
    EXPECT_TRUE(IsQuantised(own.type()));
    EXPECT_EQ(own.value_bytes(), layout.row_bytes());
    EXPECT_EQ(own.scale_bytes(), layout.scale_bytes());
    EXPECT_EQ(KvWireFormat(layout, KvType::kBf16).scale_bytes(), 0u);
  }
}

// Converts every type into every other one, if one of them is quantised, in both directions. The
// expected bytes follow kv_codes.h and kv_int4.h, one head at a time.
TEST(KvType, QuantisedTypesRoundAsTheirRuleSaysWhateverIsOnTheOtherSide) {
  std::mt19937 random(4);
  std::normal_distribution<float> normal;
  for (const int head_dim : {16, 25, 64, 96}) {
    const size_t count = 7;
    std::vector<float> values;
    for (size_t i = 0; i < count * 3 * static_cast<size_t>(head_dim); ++i) {
      // Heads of different sizes; every fifth is zero.
      const auto head = static_cast<int>(i) / head_dim;
      values.push_back(head % 5 == 0 ? 0 : std::ldexp(normal(random), head % 9 - 4));
    }
    for (const CpuIsa isa : InstructionSets()) {
      for (const KvType quantised : kQuantised) {
        if (!TakesHeadDim(quantised, static_cast<size_t>(head_dim))) continue;
        const KvLayout layout = Layout(quantised, 3, head_dim);
        const Heads cache = StoreAll(quantised, values, head_dim);
        for (const KvType other : kDtypes) {
          // From the quantised type: the sender converts from its cache, the receiver from the
          // wire.
          const Bytes expected = Store(other, cache.values);
          const KvWireFormat sent(layout, other, isa);
          EXPECT_EQ(Encode(sent, cache.codes, count, cache.scales).values, expected);
          const KvLayout other_layout = Layout(other, 3, head_dim);
          const KvWireFormat received(other_layout, quantised, isa);
          EXPECT_EQ(
              Decode(received, {cache.codes, cache.scales, true}, count, other_layout.row_bytes()),
              expected);
          // To the quantised type: the sender converts to the wire, the receiver to its cache.
          const Bytes floats = Store(other, values);
          std::vector<float> stored;
          for (size_t i = 0; i < values.size(); ++i) stored.push_back(Load(other, floats, i));
          const Heads codes = StoreAll(quantised, stored, head_dim);
          const Wire wire = Encode(received, floats, count);
          EXPECT_TRUE(wire.ok);
          EXPECT_EQ(wire.values, codes.codes);
          EXPECT_EQ(Bytes(wire.scales.begin(), wire.scales.end()), codes.scales);
          Bytes rows(codes.codes.size());
          Bytes scales(codes.scales.size());
          sent.Decode(floats.data(), nullptr, count, rows.data(), scales.data());
          EXPECT_EQ(rows, codes.codes);
          EXPECT_EQ(scales, codes.scales);
        }
        for (const KvType second : kQuantised) {
          if (second == quantised || !TakesHeadDim(second, static_cast<size_t>(head_dim))) continue;
          const Heads expected = StoreAll(second, cache.values, head_dim);
          const Wire wire = Encode({layout, second, isa}, cache.codes, count, cache.scales);
          EXPECT_EQ(wire.values, expected.codes);
          EXPECT_EQ(wire.scales, expected.scales);
        }
      }
    }
  }
}

TEST(KvType, Float32CarriesEveryValueOfTheOtherTypesThereAndBack) {
  for (const KvType dtype : {KvType::kF16, KvType::kBf16}) {
    const KvLayout layout = Layout(dtype, 1, 64);
    Bytes rows;
    for (uint32_t bits = 0; bits < 65536; ++bits) {
      rows.push_back(static_cast<uint8_t>(bits));
      rows.push_back(static_cast<uint8_t>(bits >> 8));
    }
    for (const CpuIsa isa : InstructionSets()) {
      const KvWireFormat format(layout, KvType::kF32, isa);
      const Wire wire = Encode(format, rows, 1024);
      EXPECT_TRUE(wire.ok);
      const Bytes back = Decode(format, wire, 1024, layout.row_bytes());
      for (uint32_t bits = 0; bits < 65536; ++bits) {
        const float value = Load(dtype, rows, bits);
        if (std::isnan(value)) {
          ASSERT_TRUE(std::isnan(Load(KvType::kF32, wire.values, bits)));
          ASSERT_TRUE(std::isnan(Load(dtype, back, bits)));
          continue;
        }
        ASSERT_EQ(Load(KvType::kF32, wire.values, bits), value);
        ASSERT_EQ(back[2 * bits] | back[2 * bits + 1] << 8, static_cast<int>(bits));
      }
    }
  }
}

TEST(KvType, NarrowerFloatsAreRoundedToNearestEvenInEitherDirection) {
  std::mt19937 random(1);
  std::vector<float> values = {1.0f + 0x1p-11f, 1.0f + 0x3p-11f, 1.0f + 0x1p-8f, 1.0f + 0x3p-8f,
                               65504.0f,        65519.996f,      65520.0f,       -1e30f,
                               0x1p-25f,        0x1.8p-25f,      -0.0f};
  while (values.size() < 64 * 64) {
    const float value = std::bit_cast<float>(static_cast<uint32_t>(random()));
    if (!std::isnan(value)) values.push_back(value);
  }
  const Bytes rows = Store(KvType::kF32, values);
  for (const KvType narrow : {KvType::kF16, KvType::kBf16}) {
    const Bytes expected = Store(narrow, values);
    for (const CpuIsa isa : InstructionSets()) {
      // Either the sender or the receiver narrows.
      EXPECT_EQ(Encode({Layout(KvType::kF32, 1, 64), narrow, isa}, rows, 64).values, expected);
      EXPECT_EQ(Decode({Layout(narrow, 1, 64), KvType::kF32, isa}, {rows, {}, true}, 64, 128),
                expected);
    }
  }
  EXPECT_EQ(Load(KvType::kF16, Store(KvType::kF16, values), 0), 1.0f);
  EXPECT_EQ(Load(KvType::kF16, Store(KvType::kF16, values), 1), 1.0f + 0x1p-9f);
  EXPECT_EQ(Load(KvType::kF16, Store(KvType::kF16, values), 6), INFINITY);
}

// Checks a head of int8 against the rule of the header, one value at a time.
void ExpectInt8OfHead(const float* values, int head_dim, const int8_t* wire, float scale) {
  float largest = 0;
  for (int i = 0; i < head_dim; ++i) largest = std::max(largest, std::fabs(values[i]));
  if (largest < kLeastInt8Head) {
    EXPECT_EQ(scale, 0);
    for (int i = 0; i < head_dim; ++i) ASSERT_EQ(wire[i], 0);
    return;
  }
  ASSERT_EQ(scale, largest / 127);
  for (int i = 0; i < head_dim; ++i) {
    ASSERT_EQ(wire[i], static_cast<int>(std::nearbyint(values[i] / scale))) << values[i];
    ASSERT_GE(wire[i], -127);
    ASSERT_TRUE(std::fabs(values[i]) < largest || std::abs(wire[i]) == 127) << values[i];
  }
}

// The largest error of rounding a decoded value to the cache's type.
double HalfUlp(KvType dtype, double value) {
  const int digits = dtype == KvType::kF32 ? 24 : dtype == KvType::kF16 ? 11 : 8;
  const double least = dtype == KvType::kF16 ? 0x1p-25 : 0x1p-150;
  return std::max(least, std::ldexp(std::fabs(value), -digits));
}

TEST(KvType, Int8ErrsByHalfAScaleForHeadsOfAnySizeAndMagnitude) {
  std::mt19937 random(2);
  for (int round = 0; round < 60; ++round) {
    const int heads = 1 + static_cast<int>(random() % 5);
    const int head_dim = 1 + static_cast<int>(random() % 140);
    const size_t count = 1 + random() % 20;
    for (const KvType dtype : kDtypes) {
      const KvLayout layout = Layout(dtype, heads, head_dim);
      const int widest = dtype == KvType::kF16 ? 15 : 126;
      std::vector<float> values;
      for (size_t head = 0; head < count * static_cast<size_t>(heads); ++head) {
        const int exponent = static_cast<int>(random() % (2 * widest)) - widest;
        const bool zero = random() % 8 == 0;
        for (int i = 0; i < head_dim; ++i) {
          const float unit = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;
          values.push_back(zero ? 0 : std::ldexp(unit, exponent));
        }
      }
      const Bytes rows = Store(dtype, values);
      for (const CpuIsa isa : InstructionSets()) {
        const KvWireFormat format(layout, KvType::kInt8, isa);
        const Wire wire = Encode(format, rows, count);
        ASSERT_TRUE(wire.ok);
        const Bytes back = Decode(format, wire, count, layout.row_bytes());
        std::vector<float> stored;
        for (size_t i = 0; i < values.size(); ++i) stored.push_back(Load(dtype, rows, i));
        for (size_t head = 0; head < count * static_cast<size_t>(heads); ++head) {
          const size_t first = head * static_cast<size_t>(head_dim);
          const float scale = Load(KvType::kF32, wire.scales, head);
          ExpectInt8OfHead(&stored[first], head_dim,
                           reinterpret_cast<const int8_t*>(&wire.values[first]), scale);
          for (size_t i = first; i < first + static_cast<size_t>(head_dim); ++i) {
            const double bound = scale == 0 ? double{kLeastInt8Head}
                                            : 0.5000001 * scale + HalfUlp(dtype, stored[i]) * 1.01;
            ASSERT_LE(std::fabs(double{Load(dtype, back, i)} - stored[i]), bound)
                << "head " << head << " of " << head_dim << ", scale " << scale;
          }
        }
      }
    }
  }
}

TEST(KvType, TheSmallestHeadsAndTheLargestOfInt8) {
  const KvLayout layout = Layout(KvType::kF32, 4, 2);
  const KvWireFormat format(layout, KvType::kInt8);
  const float largest = std::nextafter(0x1p127f, 0.0f);
  const Bytes rows =
      Store(KvType::kF32, {0x1p-149f, -0x1p-149f, kLeastInt8Head, 0,  //
                           std::nextafter(kLeastInt8Head, 0.0f), 1e-44f, largest, -largest});
  const Wire wire = Encode(format, rows, 1);
  EXPECT_TRUE(wire.ok);
  EXPECT_EQ(wire.values, (Bytes{0, 0, 127, 0, 0, 0, 127, 0x81}));
  EXPECT_EQ(Load(KvType::kF32, wire.scales, 0), 0);
  EXPECT_EQ(Load(KvType::kF32, wire.scales, 1), std::numeric_limits<float>::min());
  EXPECT_EQ(Load(KvType::kF32, wire.scales, 2), 0);
  const Bytes back = Decode(format, wire, 1, layout.row_bytes());
  EXPECT_TRUE(std::isfinite(Load(KvType::kF32, back, 6)));
}

TEST(KvType, Int8RefusesWhatItCannotSayWhereverItIs) {
  for (const KvType dtype : kDtypes) {
    for (const float bad : {INFINITY, -INFINITY, NAN, -NAN, 0x1p127f}) {
      if (dtype == KvType::kF16 && std::isfinite(bad)) continue;
      for (size_t at = 0; at < 150; ++at) {
        std::vector<float> values(150, 0.5f);
        values[at] = bad;
        for (const CpuIsa isa : InstructionSets()) {
          const KvWireFormat format(Layout(dtype, 2, 25), KvType::kInt8, isa);
          ASSERT_FALSE(Encode(format, Store(dtype, values), 3).ok) << bad << " at " << at;
        }
      }
    }
  }
}

TEST(KvType, Int4RefusesWhatIsNotFiniteOrNeedsAScaleThatAFloat16LacksWhereverItIs) {
  constexpr size_t kHeadDim = 64;
  for (const KvType dtype : kDtypes) {
    for (const float bad : {INFINITY, -INFINITY, NAN, -NAN, 0x1p24f, std::ldexp(1.0f, 127)}) {
      if (dtype == KvType::kF16 && std::isfinite(bad)) continue;
      for (size_t at = 0; at < 2 * kHeadDim; ++at) {
        std::vector<float> values(2 * kHeadDim, 0.5f);
        values[at] = bad;
        for (const CpuIsa isa : InstructionSets()) {
          const KvWireFormat format(Layout(dtype, 2, int{kHeadDim}), KvType::kInt4, isa);
          ASSERT_FALSE(Encode(format, Store(dtype, values), 1).ok) << bad << " at " << at;
        }
      }
    }
  }
  // What a float16 cache can hold can be said.
  const std::vector<float> largest(kHeadDim, 65504);
  EXPECT_TRUE(Encode({Layout(KvType::kF16, 1, int{kHeadDim}), KvType::kInt4},
                     Store(KvType::kF16, largest), 1)
                  .ok);
}

}  // namespace
}  // namespace baton
