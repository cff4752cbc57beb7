// One metadata value of a GGUF file, as it lies in the file. Internal to common/gguf; everybody
// else uses gguf_file.h.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/numeric/int128.h"
#include "absl/types/span.h"

namespace baton {

enum class GgufValueType : uint32_t {
  kUint8 = 0,
  kInt8 = 1,
  kUint16 = 2,
  kInt16 = 3,
  kUint32 = 4,
  kInt32 = 5,
  kFloat32 = 6,
  kBool = 7,
  kString = 8,
  kArray = 9,
  kUint64 = 10,
  kInt64 = 11,
  kFloat64 = 12,
};

// A scalar or an array in the file's bytes. It is complete: `payload` has every element, and every
// byte of the last string.
struct GgufValue {
  GgufValueType type;  // type of an element, never kArray
  bool is_array;
  uint64_t count;  // number of elements; 1 for a scalar
  // The elements one after the other. A string is its 64-bit length and its bytes.
  absl::Span<const uint8_t> payload;
};

// The type with that number; nothing if there is none.
std::optional<GgufValueType> ToGgufValueType(uint32_t number);
// Bytes of an element; 0 for arrays, and for strings, whose size varies.
size_t GgufValueSize(GgufValueType type);
// A name for errors, such as "uint32" or "array of string".
std::string GgufValueTypeName(const GgufValue& value);
bool IsInteger(GgufValueType type);
bool IsFloat(GgufValueType type);
// Element `index` of an integer value. REQUIRES: IsInteger(value.type), index < value.count.
absl::int128 IntegerAt(const GgufValue& value, uint64_t index);
// Element `index` of a float value. REQUIRES: IsFloat(value.type), index < value.count.
double FloatAt(const GgufValue& value, uint64_t index);

}  // namespace baton
