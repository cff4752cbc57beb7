#include "common/gguf/gguf_value.h"

#include <cstring>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

struct ValueTypeFacts {
  const char* name;
  size_t bytes;
};
// Name and element size of each type, by its number.
constexpr ValueTypeFacts kValueTypes[] = {{"uint8", 1},  {"int8", 1},  {"uint16", 2},  {"int16", 2},
                                          {"uint32", 4}, {"int32", 4}, {"float32", 4}, {"bool", 1},
                                          {"string", 0}, {"array", 0}, {"uint64", 8},  {"int64", 8},
                                          {"float64", 8}};

template <typename T>
T LoadAt(const GgufValue& value, uint64_t index) {
  T loaded;
  std::memcpy(&loaded, value.payload.data() + index * sizeof(T), sizeof(T));
  return loaded;
}

}  // namespace

std::optional<GgufValueType> ToGgufValueType(uint32_t number) {
  if (number >= std::size(kValueTypes)) return std::nullopt;
  return static_cast<GgufValueType>(number);
}

size_t GgufValueSize(GgufValueType type) { return kValueTypes[static_cast<size_t>(type)].bytes; }

std::string GgufValueTypeName(const GgufValue& value) {
  const char* name = kValueTypes[static_cast<size_t>(value.type)].name;
  return value.is_array ? absl::StrCat("array of ", name) : name;
}

bool IsFloat(GgufValueType type) {
  return type == GgufValueType::kFloat32 || type == GgufValueType::kFloat64;
}

bool IsInteger(GgufValueType type) {
  return !IsFloat(type) && type != GgufValueType::kBool && type != GgufValueType::kString &&
         type != GgufValueType::kArray;
}

absl::int128 IntegerAt(const GgufValue& value, uint64_t index) {
  switch (value.type) {
    case GgufValueType::kUint8:
      return LoadAt<uint8_t>(value, index);
    case GgufValueType::kInt8:
      return LoadAt<int8_t>(value, index);
    case GgufValueType::kUint16:
      return LoadAt<uint16_t>(value, index);
    case GgufValueType::kInt16:
      return LoadAt<int16_t>(value, index);
    case GgufValueType::kUint32:
      return LoadAt<uint32_t>(value, index);
    case GgufValueType::kInt32:
      return LoadAt<int32_t>(value, index);
    case GgufValueType::kUint64:
      return LoadAt<uint64_t>(value, index);
    default:
      return LoadAt<int64_t>(value, index);
  }
}

double FloatAt(const GgufValue& value, uint64_t index) {
  return value.type == GgufValueType::kFloat32 ? LoadAt<float>(value, index)
                                               : LoadAt<double>(value, index);
}

}  // namespace baton
