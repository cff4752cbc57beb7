#include "common/base/terminal_text.h"

#include <cstdint>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/utf8.h"

namespace baton {
namespace {

enum class Form { kOneLine, kLines };

bool IsEscaped(uint32_t code_point) {
  return code_point < 0x20 || (code_point >= 0x7F && code_point <= 0x9F) ||
         (code_point >= 0x2028 && code_point <= 0x202E) ||
         (code_point >= 0x2066 && code_point <= 0x2069);
}

void AppendEscape(uint32_t code_point, std::string& shown) {
  absl::StrAppendFormat(&shown, "\\u%04x", code_point);
}

void AppendCharacter(absl::string_view character, Form form, std::string& shown) {
  const bool layout = form == Form::kLines && (character == "\n" || character == "\t");
  const uint32_t code_point = CodePointOf(character);
  if (layout || !IsEscaped(code_point)) {
    absl::StrAppend(&shown, character);
  } else {
    AppendEscape(code_point, shown);
  }
}

// Appends what is shown of `text`. If more of it follows, a last character that is not whole yet,
// or a last carriage return, is left over. Returns the bytes left over.
size_t AppendShown(absl::string_view text, Form form, bool more_follows, std::string& shown) {
  while (!text.empty()) {
    const Utf8Unit unit = NextUtf8Unit(text);
    const absl::string_view bytes = text.substr(0, unit.size);
    const bool line_end = form == Form::kLines && bytes == "\r";
    const bool open =
        unit.kind == Utf8Unit::Kind::kIncomplete || (line_end && text.size() == bytes.size());
    if (open && more_follows) break;
    text.remove_prefix(bytes.size());
    if (line_end && absl::StartsWith(text, "\n")) continue;
    if (unit.kind == Utf8Unit::Kind::kCharacter) {
      AppendCharacter(bytes, form, shown);
    } else {
      for (const char byte : bytes) AppendEscape(static_cast<uint8_t>(byte), shown);
    }
  }
  return text.size();
}

}  // namespace

std::string ShownLine(absl::string_view text) {
  const bool cut = text.size() > kMaxShownLineBytes;
  std::string shown;
  AppendShown(text.substr(0, kMaxShownLineBytes), Form::kOneLine, cut, shown);
  if (cut) shown.append("...");
  return shown;
}

std::string ShownText(absl::string_view text) {
  std::string shown;
  AppendShown(text, Form::kLines, /*more_follows=*/false, shown);
  return shown;
}

std::string TerminalFilter::Filter(absl::string_view piece) {
  absl::StrAppend(&held_, piece);
  std::string shown;
  const size_t left = AppendShown(held_, Form::kLines, /*more_follows=*/true, shown);
  held_.erase(0, held_.size() - left);
  return shown;
}

}  // namespace baton
