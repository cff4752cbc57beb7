#include "common/jinja/string_literal.h"

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"

namespace baton::jinja {
namespace {

int DigitValue(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return 99;
}

// Reads exactly `digits` hexadecimal digits at `at` and moves `at` past them.
absl::StatusOr<uint32_t> TakeHex(absl::string_view body, size_t& at, size_t digits) {
  uint32_t point = 0;
  for (size_t i = 0; i < digits; ++i, ++at) {
    const int digit = at < body.size() ? DigitValue(body[at]) : 99;
    if (digit > 15) return absl::InvalidArgumentError("an escape has too few hexadecimal digits");
    point = point * 16 + static_cast<uint32_t>(digit);
  }
  if (point > 0x10FFFF || (point >= 0xD800 && point <= 0xDFFF)) {
    return absl::InvalidArgumentError("an escape sequence does not stand for a Unicode character");
  }
  return point;
}

uint32_t TakeOctal(absl::string_view body, size_t& at) {
  uint32_t point = 0;
  for (int i = 0; i < 3 && at < body.size() && DigitValue(body[at]) < 8; ++i, ++at) {
    point = point * 8 + static_cast<uint32_t>(DigitValue(body[at]));
  }
  return point;
}

// The character of a one-letter escape; 0 if `letter` is not one.
char SimpleEscape(char letter) {
  switch (letter) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    case 'a':
      return '\a';
    case 'b':
      return '\b';
    case 'f':
      return '\f';
    case 'v':
      return '\v';
    case '\\':
    case '\'':
    case '"':
      return letter;
    default:
      return 0;
  }
}

// Appends the character of an escape. `at` is the offset after the backslash and moves past the
// escape.
absl::Status Unescape(absl::string_view body, size_t& at, std::string& out) {
  const char letter = body[at];
  if (const char simple = SimpleEscape(letter); simple != 0) {
    ++at;
    out += simple;
    return absl::OkStatus();
  }
  if (letter >= '0' && letter <= '7') {
    AppendUtf8(TakeOctal(body, at), out);
    return absl::OkStatus();
  }
  if (letter == 'x' || letter == 'u' || letter == 'U') {
    ++at;
    const size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
    BATON_ASSIGN_OR_RETURN(const uint32_t point, TakeHex(body, at, digits));
    AppendUtf8(point, out);
    return absl::OkStatus();
  }
  ++at;
  if (letter == 'N') return absl::InvalidArgumentError("unsupported escape '\\N'");
  if (letter != '\n') absl::StrAppend(&out, "\\", absl::string_view(&letter, 1));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::string> UnescapeStringLiteral(absl::string_view body) {
  std::string out;
  for (size_t at = 0; at < body.size();) {
    if (body[at] != '\\' || at + 1 == body.size()) {
      out += body[at++];
      continue;
    }
    ++at;
    BATON_RETURN_IF_ERROR(Unescape(body, at, out));
  }
  return out;
}

void AppendUtf8(uint32_t point, std::string& out) {
  const auto add = [&out](uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) {
    add(point);
  } else if (point < 0x800) {
    add(0xC0 | point >> 6);
    add(0x80 | (point & 0x3F));
  } else if (point < 0x10000) {
    add(0xE0 | point >> 12);
    add(0x80 | (point >> 6 & 0x3F));
    add(0x80 | (point & 0x3F));
  } else {
    add(0xF0 | point >> 18);
    add(0x80 | (point >> 12 & 0x3F));
    add(0x80 | (point >> 6 & 0x3F));
    add(0x80 | (point & 0x3F));
  }
}

}  // namespace baton::jinja
