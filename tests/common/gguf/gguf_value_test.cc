#include "common/gguf/gguf_value.h"

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

// The value of an array whose elements are the bytes of `elements`.
template <typename T>
GgufValue ArrayOf(GgufValueType type, const std::vector<T>& elements) {
  return {
      .type = type,
      .is_array = true,
      .count = elements.size(),
      .payload = {reinterpret_cast<const uint8_t*>(elements.data()), elements.size() * sizeof(T)}};
}

// Reads back the smallest and the largest of a type, and one after them.
template <typename T>
void ExpectIntegers(GgufValueType type) {
  const std::vector<T> elements = {std::numeric_limits<T>::min(), std::numeric_limits<T>::max(),
                                   T{7}};
  const GgufValue value = ArrayOf(type, elements);
  EXPECT_TRUE(IsInteger(type));
  EXPECT_EQ(GgufValueSize(type), sizeof(T));
  for (size_t i = 0; i < elements.size(); ++i) {
    EXPECT_TRUE(IntegerAt(value, i) == absl::int128(elements[i]))
        << GgufValueTypeName(value) << " " << i;
  }
}

TEST(GgufValue, IntegersOfEveryTypeKeepTheirSignAndTheirWidth) {
  ExpectIntegers<uint8_t>(GgufValueType::kUint8);
  ExpectIntegers<int8_t>(GgufValueType::kInt8);
  ExpectIntegers<uint16_t>(GgufValueType::kUint16);
  ExpectIntegers<int16_t>(GgufValueType::kInt16);
  ExpectIntegers<uint32_t>(GgufValueType::kUint32);
  ExpectIntegers<int32_t>(GgufValueType::kInt32);
  ExpectIntegers<uint64_t>(GgufValueType::kUint64);
  ExpectIntegers<int64_t>(GgufValueType::kInt64);
}

TEST(GgufValue, FloatsOfEitherWidthAreReadExactly) {
  const std::vector<float> floats = {0.1f, -std::numeric_limits<float>::max()};
  const std::vector<double> doubles = {0.1, std::numeric_limits<double>::denorm_min()};
  for (uint64_t i = 0; i < 2; ++i) {
    EXPECT_EQ(FloatAt(ArrayOf(GgufValueType::kFloat32, floats), i), double{floats[i]});
    EXPECT_EQ(FloatAt(ArrayOf(GgufValueType::kFloat64, doubles), i), doubles[i]);
  }
}

// In a file nothing is aligned but by accident.
TEST(GgufValue, ElementsMayLieAtAnyAddress) {
  const int64_t number = -123456789012345;
  std::vector<uint8_t> bytes(1 + sizeof(number));
  std::memcpy(bytes.data() + 1, &number, sizeof(number));
  const GgufValue value = {.type = GgufValueType::kInt64,
                           .is_array = false,
                           .count = 1,
                           .payload = {bytes.data() + 1, sizeof(number)}};
  EXPECT_TRUE(IntegerAt(value, 0) == number);
}

TEST(GgufValue, EveryNumberIsOneTypeOrNone) {
  const std::vector<std::string> names = {"uint8",  "int8",    "uint16", "int16",  "uint32",
                                          "int32",  "float32", "bool",   "string", "array",
                                          "uint64", "int64",   "float64"};
  for (uint32_t number = 0; number < names.size(); ++number) {
    const auto type = ToGgufValueType(number);
    ASSERT_TRUE(type.has_value()) << number;
    EXPECT_EQ(static_cast<uint32_t>(*type), number);
    EXPECT_EQ(GgufValueTypeName({.type = *type, .is_array = false, .count = 1, .payload = {}}),
              names[number]);
    EXPECT_EQ(GgufValueTypeName({.type = *type, .is_array = true, .count = 0, .payload = {}}),
              "array of " + names[number]);
    EXPECT_EQ(IsInteger(*type), names[number].find("int") != std::string::npos) << number;
    EXPECT_EQ(IsFloat(*type), names[number].rfind("float", 0) == 0) << number;
  }
  EXPECT_FALSE(ToGgufValueType(13).has_value());
  EXPECT_FALSE(ToGgufValueType(std::numeric_limits<uint32_t>::max()).has_value());
}

TEST(GgufValue, OnlyStringsAndArraysHaveNoSizeOfTheirOwn) {
  for (uint32_t number = 0; number < 13; ++number) {
    const GgufValueType type = *ToGgufValueType(number);
    const bool varies = type == GgufValueType::kString || type == GgufValueType::kArray;
    EXPECT_EQ(GgufValueSize(type) == 0, varies) << number;
  }
  EXPECT_EQ(GgufValueSize(GgufValueType::kBool), 1u);
  EXPECT_EQ(GgufValueSize(GgufValueType::kFloat32), 4u);
  EXPECT_EQ(GgufValueSize(GgufValueType::kFloat64), 8u);
}

}  // namespace
}  // namespace baton
