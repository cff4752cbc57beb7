#include "common/jinja/repr.h"

#include <utf8proc.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/string_view.h"

#include "common/base/status_macros.h"

namespace baton::jinja {
namespace {

// Whether Python shows a character as it is: no control, format, surrogate, private or unassigned
// character, and no separator but the space.
bool IsPrintable(int32_t character) {
  switch (utf8proc_category(character)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return character == ' ';
    default:
      return true;
  }
}

// How the character `bytes` is escaped between quotes `quote`; empty if it is not.
std::string Escape(absl::string_view bytes, char quote) {
  const char c = bytes[0];
  if (c == '\\' || c == quote) return absl::StrCat("\\", bytes);
  if (c == '\n') return "\\n";
  if (c == '\r') return "\\r";
  if (c == '\t') return "\\t";
  utf8proc_int32_t character = -1;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(bytes.data()),
                   static_cast<utf8proc_ssize_t>(bytes.size()), &character);
  if (character < 0 || IsPrintable(character)) return "";
  if (character < 0x100) return absl::StrFormat("\\x%02x", character);
  if (character < 0x10000) return absl::StrFormat("\\u%04x", character);
  return absl::StrFormat("\\U%08x", character);
}

class ReprWriter {
 public:
  explicit ReprWriter(Workspace& workspace) : workspace_(workspace), builder_(workspace) {}

  absl::StatusOr<Value> Finish() { return builder_.Finish(); }

  // kMaxContainerDepth bounds the depth of the recursion and kMaxSteps its size.
  absl::Status Write(const Value& value) {
    BATON_RETURN_IF_ERROR(workspace_.Step());
    if (const Text* text = value.text()) return WriteText(*text);
    if (const Dict* dict = value.dict()) return WriteDict(*dict);
    const List* list = value.list();
    if (list != nullptr && !list->generator) return WriteList(*list);
    if (value.Is<Undefined>()) return builder_.Append("Undefined", true);
    BATON_ASSIGN_OR_RETURN(const Text* text, ToText(workspace_, value));
    return builder_.Append(*text);
  }

 private:
  absl::Status WriteText(const Text& text) {
    const absl::string_view bytes = text.bytes();
    BATON_RETURN_IF_ERROR(workspace_.StepBytes(bytes.size()));
    const bool single = bytes.find('\'') != absl::string_view::npos;
    const bool both = single && bytes.find('"') != absl::string_view::npos;
    const char quote = single && !both ? '"' : '\'';
    BATON_RETURN_IF_ERROR(builder_.Append(absl::string_view(&quote, 1), true));
    size_t plain = 0;
    for (size_t at = 0; at < bytes.size();) {
      BATON_RETURN_IF_ERROR(workspace_.StepByte());
      const size_t end = at + CharacterSize(bytes, at);
      if (const std::string escape = Escape(bytes.substr(at, end - at), quote); !escape.empty()) {
        BATON_RETURN_IF_ERROR(builder_.AppendSlice(text, plain, at));
        BATON_RETURN_IF_ERROR(builder_.Append(escape, text.TrustedBetween(at, end)));
        plain = end;
      }
      at = end;
    }
    BATON_RETURN_IF_ERROR(builder_.AppendSlice(text, plain, bytes.size()));
    return builder_.Append(absl::string_view(&quote, 1), true);
  }

  absl::Status WriteList(const List& list) {
    BATON_RETURN_IF_ERROR(builder_.Append("[", true));
    for (size_t i = 0; i < list.items.size(); ++i) {  // no step: Write counts one
      if (i > 0) BATON_RETURN_IF_ERROR(builder_.Append(", ", list.trusted_size));
      BATON_RETURN_IF_ERROR(Write(list.items[i]));
    }
    return builder_.Append("]", true);
  }

  absl::Status WriteDict(const Dict& dict) {
    BATON_RETURN_IF_ERROR(builder_.Append("{", true));
    for (size_t i = 0; i < dict.items.size(); ++i) {  // no step: as above
      if (i > 0) BATON_RETURN_IF_ERROR(builder_.Append(", ", dict.trusted_size));
      BATON_RETURN_IF_ERROR(Write(dict.items[i].first));
      BATON_RETURN_IF_ERROR(builder_.Append(": ", true));
      BATON_RETURN_IF_ERROR(Write(dict.items[i].second));
    }
    return builder_.Append("}", true);
  }

  Workspace& workspace_;
  TextBuilder builder_;
};

}  // namespace

absl::StatusOr<const Text*> Repr(Workspace& workspace, const Value& value) {
  ReprWriter writer(workspace);
  BATON_RETURN_IF_ERROR(writer.Write(value));
  BATON_ASSIGN_OR_RETURN(const Value text, writer.Finish());
  return text.text();
}

}  // namespace baton::jinja
