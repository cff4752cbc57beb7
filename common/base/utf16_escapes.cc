#include "common/base/utf16_escapes.h"

#include <algorithm>
#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace baton {
namespace {

constexpr size_t kEscapeBytes = 6;  // "\u" and four digits

bool IsFirstHalf(uint32_t unit) { return unit >= 0xd800 && unit <= 0xdbff; }
bool IsSecondHalf(uint32_t unit) { return unit >= 0xdc00 && unit <= 0xdfff; }

// The unit whose escape `text` begins with; 0 if it begins with none.
uint32_t UnitOf(absl::string_view text) {
  uint32_t unit = 0;
  if (text.size() < kEscapeBytes || !absl::StartsWith(text, "\\u") ||
      !absl::SimpleHexAtoi(text.substr(2, kEscapeBytes - 2), &unit)) {
    return 0;
  }
  return unit;
}

}  // namespace

std::string HalfPairFault(absl::string_view json) {
  while (true) {
    json.remove_prefix(std::min(json.find('\\'), json.size()));
    if (json.empty()) return "";
    const uint32_t unit = UnitOf(json);
    const bool paired = IsFirstHalf(unit) && IsSecondHalf(UnitOf(json.substr(kEscapeBytes)));
    if (!paired && (IsFirstHalf(unit) || IsSecondHalf(unit))) {
      return absl::StrCat(
          "has ", json.substr(0, kEscapeBytes),
          ", half of a UTF-16 pair, which is not a character; write both halves, as in "
          "\\ud83d\\ude00, or the character itself");
    }
    // A backslash escapes the next one; a byte of the four digits cannot be one.
    json.remove_prefix(paired ? 2 * kEscapeBytes : std::min<size_t>(2, json.size()));
  }
}

}  // namespace baton
