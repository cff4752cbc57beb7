#include "common/base/utf8.h"

#include <cstdint>

#include "common/base/check.h"

namespace baton {
namespace {

struct ByteRange {
  uint8_t low;
  uint8_t high;
};

// The size in bytes of the character that `lead` begins; 0 if it begins none.
size_t CharacterSize(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead < 0xC2) return 0;  // continuation bytes, and the overlong C0 and C1
  if (lead < 0xE0) return 2;
  if (lead < 0xF0) return 3;
  return lead < 0xF5 ? 4 : 0;
}

// The values of a second byte after `lead`. They exclude overlong forms, surrogates and code points
// above U+10FFFF.
ByteRange SecondByte(uint8_t lead) {
  switch (lead) {
    case 0xE0:
      return {0xA0, 0xBF};
    case 0xED:
      return {0x80, 0x9F};
    case 0xF0:
      return {0x90, 0xBF};
    case 0xF4:
      return {0x80, 0x8F};
    default:
      return {0x80, 0xBF};
  }
}

}  // namespace

Utf8Unit NextUtf8Unit(absl::string_view bytes) {
  BATON_CHECK(!bytes.empty(), "a unit of nothing");
  const auto lead = static_cast<uint8_t>(bytes[0]);
  const size_t size = CharacterSize(lead);
  if (size == 0) return {Utf8Unit::Kind::kInvalid, 1};
  ByteRange allowed = SecondByte(lead);
  for (size_t i = 1; i < size; ++i) {
    if (i == bytes.size()) return {Utf8Unit::Kind::kIncomplete, i};
    const auto byte = static_cast<uint8_t>(bytes[i]);
    if (byte < allowed.low || byte > allowed.high) return {Utf8Unit::Kind::kInvalid, i};
    allowed = {0x80, 0xBF};
  }
  return {Utf8Unit::Kind::kCharacter, size};
}

uint32_t CodePointOf(absl::string_view character) {
  uint32_t code = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return code;
  constexpr uint32_t kSevenBits = 0x7f, kSixBits = 0x3f;
  code &= kSevenBits >> character.size();
  for (const char c : character.substr(1)) code = code << 6 | (static_cast<uint8_t>(c) & kSixBits);
  return code;
}

bool IsUtf8(absl::string_view bytes) {
  while (!bytes.empty()) {
    const Utf8Unit unit = NextUtf8Unit(bytes);
    if (unit.kind != Utf8Unit::Kind::kCharacter) return false;
    bytes.remove_prefix(unit.size);
  }
  return true;
}

}  // namespace baton
