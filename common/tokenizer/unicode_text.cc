#include "common/tokenizer/unicode_text.h"

#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "common/base/check.h"
#include "common/base/utf8.h"

namespace baton {
namespace {

constexpr auto kCompose = static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_COMPOSE);
constexpr size_t kMostOfDecomposition = 32;  // code points that one decomposes to, and more

int CombiningClass(utf8proc_int32_t code_point) {
  return utf8proc_get_property(code_point)->combining_class;
}

// Puts each sequence of marks into the order of their classes. (utf8proc's own way is quadratic.)
void OrderMarks(std::vector<utf8proc_int32_t>& code_points) {
  for (auto begin = code_points.begin(); begin != code_points.end();) {
    auto end = begin;
    while (end != code_points.end() && CombiningClass(*end) != 0) ++end;
    std::stable_sort(begin, end, [](utf8proc_int32_t left, utf8proc_int32_t right) {
      return CombiningClass(left) < CombiningClass(right);
    });
    begin = end == code_points.end() ? end : end + 1;
  }
}

// Appends normal form C of `text`, which is UTF-8.
void AppendComposed(absl::string_view text, std::string& composed) {
  std::vector<utf8proc_int32_t> code_points;
  code_points.reserve(text.size());
  while (!text.empty()) {
    utf8proc_int32_t code_point = 0;
    const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                       static_cast<utf8proc_ssize_t>(text.size()), &code_point);
    BATON_CHECK(size > 0, "the text is UTF-8");
    text.remove_prefix(static_cast<size_t>(size));
    std::array<utf8proc_int32_t, kMostOfDecomposition> parts;
    int last_class = 0;
    const auto count = utf8proc_decompose_char(
        code_point, parts.data(), static_cast<utf8proc_ssize_t>(parts.size()),
        static_cast<utf8proc_option_t>(UTF8PROC_STABLE | UTF8PROC_DECOMPOSE), &last_class);
    BATON_CHECK(count >= 0 && static_cast<size_t>(count) <= parts.size(),
                "a decomposition must fit into `parts`", count);
    code_points.insert(code_points.end(), parts.begin(), parts.begin() + count);
  }
  OrderMarks(code_points);
  const auto count = utf8proc_normalize_utf32(
      code_points.data(), static_cast<utf8proc_ssize_t>(code_points.size()), kCompose);
  BATON_CHECK(count >= 0, "utf8proc must compose every text", count);
  for (utf8proc_ssize_t i = 0; i < count; ++i) {
    std::array<utf8proc_uint8_t, 4> bytes;
    const auto size = utf8proc_encode_char(code_points[static_cast<size_t>(i)], bytes.data());
    composed.append(reinterpret_cast<const char*>(bytes.data()), static_cast<size_t>(size));
  }
}

// The code point of the character that `text` begins with; nullopt if there is none.
std::optional<utf8proc_int32_t> FirstCodePoint(absl::string_view text) {
  utf8proc_int32_t code_point = 0;
  const auto size = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()),
                                     static_cast<utf8proc_ssize_t>(text.size()), &code_point);
  if (text.empty() || size <= 0) return std::nullopt;
  return code_point;
}

// The last character of `text`, empty if there is none.
absl::string_view LastCharacter(absl::string_view text) {
  for (size_t size = 1; size <= std::min<size_t>(4, text.size()); ++size) {
    const absl::string_view end = text.substr(text.size() - size);
    const Utf8Unit unit = NextUtf8Unit(end);
    if (unit.kind == Utf8Unit::Kind::kCharacter && unit.size == size) return end;
  }
  return {};
}

bool IsSpace(utf8proc_int32_t code_point) {
  if ((code_point >= 0x09 && code_point <= 0x0D) || code_point == 0x85) return true;
  const utf8proc_category_t category = utf8proc_category(code_point);
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

bool IsOfWords(utf8proc_int32_t code_point) {
  if (code_point == 0x200C || code_point == 0x200D) return true;  // they join letters
  const utf8proc_category_t category = utf8proc_category(code_point);
  return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_NL) ||
         category == UTF8PROC_CATEGORY_PC;
}

bool IsAscii(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char byte) { return static_cast<uint8_t>(byte) < 0x80; });
}

}  // namespace

std::string NormalFormC(absl::string_view text) {
  if (IsAscii(text)) return std::string(text);
  std::string composed;
  composed.reserve(text.size());
  while (!text.empty()) {
    size_t size = 0;  // bytes of the well-formed text in front
    Utf8Unit unit{Utf8Unit::Kind::kInvalid, 0};
    while (size < text.size()) {
      unit = NextUtf8Unit(text.substr(size));
      if (unit.kind != Utf8Unit::Kind::kCharacter) break;
      size += unit.size;
    }
    if (size > 0) AppendComposed(text.substr(0, size), composed);
    text.remove_prefix(size);
    if (text.empty()) break;
    composed.append(text.data(), unit.size);
    text.remove_prefix(unit.size);
  }
  return composed;
}

size_t LeadingSpace(absl::string_view text) {
  size_t size = 0;
  while (size < text.size()) {
    const std::optional<utf8proc_int32_t> first = FirstCodePoint(text.substr(size));
    if (!first.has_value() || !IsSpace(*first)) break;
    size += NextUtf8Unit(text.substr(size)).size;
  }
  return size;
}

size_t TrailingSpace(absl::string_view text) {
  size_t size = 0;
  while (true) {
    const absl::string_view last = LastCharacter(text.substr(0, text.size() - size));
    if (last.empty() || !IsSpace(*FirstCodePoint(last))) return size;
    size += last.size();
  }
}

bool BeginsWithWord(absl::string_view text) {
  const std::optional<utf8proc_int32_t> first = FirstCodePoint(text);
  return first.has_value() && IsOfWords(*first);
}

bool EndsWithWord(absl::string_view text) { return BeginsWithWord(LastCharacter(text)); }

}  // namespace baton
