#include "common/gguf/ggml_type.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(GgmlType, HasNamesForTypesAndNumbersForTheRest) {
  EXPECT_EQ(GgmlTypeName(GgmlType::kF32), "F32");
  EXPECT_EQ(GgmlTypeName(GgmlType::kQ4_1), "Q4_1");
  EXPECT_EQ(GgmlTypeName(GgmlType::kBf16), "BF16");
  EXPECT_EQ(GgmlTypeName(static_cast<GgmlType>(16)), "IQ2_XXS");
  EXPECT_EQ(GgmlTypeName(static_cast<GgmlType>(4)), "type 4");  // a type that ggml has removed
  EXPECT_EQ(GgmlTypeName(static_cast<GgmlType>(99)), "type 99");
}

TEST(GgmlType, BlocksAreAsLargeAsTheirParts) {
  const auto bytes = [](GgmlType type) { return GgmlBlockOf(type)->bytes; };
  EXPECT_EQ(bytes(GgmlType::kF32), 4u);
  EXPECT_EQ(bytes(GgmlType::kF16), 2u);
  EXPECT_EQ(bytes(GgmlType::kBf16), 2u);
  EXPECT_EQ(bytes(GgmlType::kQ8_0), 2u + 32);      // scale, values
  EXPECT_EQ(bytes(GgmlType::kQ4_0), 2u + 16);      // scale, nibbles
  EXPECT_EQ(bytes(GgmlType::kQ4_1), 2u + 2 + 16);  // scale, minimum, nibbles
  EXPECT_EQ(bytes(GgmlType::kQ5_0), 2u + 4 + 16);  // scale, fifth bits, nibbles
  EXPECT_EQ(bytes(GgmlType::kQ5_1), 2u + 2 + 4 + 16);
  EXPECT_EQ(bytes(GgmlType::kQ4_K), 4u + 12 + 128);  // two super-scales, packed scales, nibbles
  EXPECT_EQ(bytes(GgmlType::kQ5_K), 4u + 12 + 32 + 128);
  EXPECT_EQ(bytes(GgmlType::kQ6_K), 2u + 16 + 64 + 128);
  EXPECT_FALSE(GgmlBlockOf(static_cast<GgmlType>(4)).has_value());
  EXPECT_FALSE(GgmlBlockOf(static_cast<GgmlType>(UINT32_MAX)).has_value());
}

}  // namespace
}  // namespace baton
