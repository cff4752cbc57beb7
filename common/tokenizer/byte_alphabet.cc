#include "common/tokenizer/byte_alphabet.h"

#include <array>
#include <cstdint>

#include "common/base/utf8.h"

namespace baton {
namespace {

constexpr uint32_t kAlphabetEnd = 256 + 68;
constexpr int16_t kNoByte = -1;

constexpr bool StandsForItself(uint32_t byte) {
  return (byte >= 0x21 && byte <= 0x7E) || (byte >= 0xA1 && byte <= 0xAC) || byte >= 0xAE;
}

// The byte of each code point below kAlphabetEnd.
constexpr std::array<int16_t, kAlphabetEnd> MakeByteOfCodePoint() {
  std::array<int16_t, kAlphabetEnd> bytes{};
  bytes.fill(kNoByte);
  uint32_t next = 256;
  for (uint32_t byte = 0; byte < 256; ++byte) {
    bytes[StandsForItself(byte) ? byte : next++] = static_cast<int16_t>(byte);
  }
  return bytes;
}

constexpr std::array<int16_t, kAlphabetEnd> kByteOfCodePoint = MakeByteOfCodePoint();

// The code point of a character. REQUIRES: `character` is one UTF-8 character of at most two bytes.
uint32_t CodePoint(absl::string_view character) {
  const auto lead = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return lead;
  return (lead & 0x1Fu) << 6 | (static_cast<uint8_t>(character[1]) & 0x3Fu);
}

}  // namespace

std::optional<std::string> BytesFromAlphabet(absl::string_view text) {
  std::string bytes;
  bytes.reserve(text.size());
  while (!text.empty()) {
    const Utf8Unit unit = NextUtf8Unit(text);
    if (unit.kind != Utf8Unit::Kind::kCharacter || unit.size > 2) return std::nullopt;
    const uint32_t code_point = CodePoint(text.substr(0, unit.size));
    if (code_point >= kAlphabetEnd || kByteOfCodePoint[code_point] == kNoByte) return std::nullopt;
    bytes.push_back(static_cast<char>(kByteOfCodePoint[code_point]));
    text.remove_prefix(unit.size);
  }
  return bytes;
}

}  // namespace baton
