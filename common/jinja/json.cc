// The filter tojson, which writes as Python's json.dumps(value, ensure_ascii=ascii, indent=indent);
// a dict that keeps its JSON text is written as that, unless it is indented.
#include <utf8proc.h>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/status_macros.h"
#include "common/jinja/builtins.h"

namespace baton::jinja {
namespace {

constexpr int64_t kMaxIndent = 16;

// The JSON escape of `c`; empty if `c` needs none.
std::string JsonEscape(char c) {
  switch (c) {
    case '"':
      return "\\\"";
    case '\\':
      return "\\\\";
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    case '\b':
      return "\\b";
    case '\f':
      return "\\f";
    default:
      if (static_cast<unsigned char>(c) >= 0x20) return "";
      return absl::StrFormat("\\u%04x", static_cast<unsigned>(c));
  }
}

// The escape of a character outside ASCII; what is no UTF-8 stands for U+FFFD.
std::string AsciiEscape(absl::string_view bytes) {
  utf8proc_int32_t character = -1;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(bytes.data()),
                   static_cast<utf8proc_ssize_t>(bytes.size()), &character);
  if (character < 0) character = 0xFFFD;
  if (character < 0x10000) return absl::StrFormat("\\u%04x", character);
  const int32_t above = character - 0x10000;  // a surrogate pair, as UTF-16 has it
  return absl::StrFormat("\\u%04x\\u%04x", 0xD800 + (above >> 10), 0xDC00 + (above & 0x3FF));
}

class JsonWriter {
 public:
  JsonWriter(Workspace& workspace, int64_t indent, bool ascii)
      : workspace_(workspace), indent_(indent), ascii_(ascii), builder_(workspace) {}

  absl::StatusOr<Value> Finish() { return builder_.Finish(); }

  // kMaxContainerDepth bounds the depth of the recursion and kMaxSteps its size.
  absl::Status Write(const Value& value, int64_t level) {
    BATON_RETURN_IF_ERROR(workspace_.Step());
    if (const Text* text = value.text()) return WriteText(*text);
    const List* list = value.list();
    if (list != nullptr && !list->generator) return WriteList(*list, level);
    if (const Dict* dict = value.dict()) return WriteDict(*dict, level);
    if (value.Is<None>()) return builder_.Append("null", true);
    if (const bool* boolean = value.If<bool>()) {
      return builder_.Append(*boolean ? "true" : "false", value.trusted);
    }
    if (value.IsNumber()) {
      BATON_ASSIGN_OR_RETURN(const Text* digits, ToText(workspace_, value));
      return builder_.Append(*digits);
    }
    return absl::InvalidArgumentError(absl::StrCat("tojson cannot write a ", Describe(value)));
  }

 private:
  absl::Status WriteText(const Text& text) {
    BATON_RETURN_IF_ERROR(builder_.Append("\"", true));
    size_t plain = 0;
    for (size_t i = 0; i < text.size(); ++i) {
      BATON_RETURN_IF_ERROR(workspace_.StepByte());
      const bool escapes_all = ascii_ && static_cast<unsigned char>(text.bytes()[i]) >= 0x80;
      const size_t end = i + (escapes_all ? CharacterSize(text.bytes(), i) : 1);
      const std::string escape =
          escapes_all ? AsciiEscape(text.bytes().substr(i, end - i)) : JsonEscape(text.bytes()[i]);
      if (escape.empty()) continue;
      BATON_RETURN_IF_ERROR(builder_.AppendSlice(text, plain, i));
      BATON_RETURN_IF_ERROR(builder_.Append(escape, text.TrustedBetween(i, end)));
      plain = end;
      i = end - 1;
    }
    BATON_RETURN_IF_ERROR(builder_.AppendSlice(text, plain, text.size()));
    return builder_.Append("\"", true);
  }

  absl::Status WriteList(const List& list, int64_t level) {
    if (list.items.empty()) return builder_.Append("[]", true);
    BATON_RETURN_IF_ERROR(builder_.Append("[", true));
    for (size_t i = 0; i < list.items.size(); ++i) {  // no step: Write counts one
      BATON_RETURN_IF_ERROR(Separate(i == 0, level + 1, list.trusted_size));
      BATON_RETURN_IF_ERROR(Write(list.items[i], level + 1));
    }
    return Close("]", level);
  }

  absl::Status WriteDict(const Dict& dict, int64_t level) {
    if (dict.json_source != nullptr && indent_ < 0) {
      return builder_.Append(*dict.json_source);
    }
    if (dict.items.empty()) return builder_.Append("{}", true);
    BATON_RETURN_IF_ERROR(builder_.Append("{", true));
    for (size_t i = 0; i < dict.items.size(); ++i) {
      const auto& [key, value] = dict.items[i];
      BATON_RETURN_IF_ERROR(Separate(i == 0, level + 1, dict.trusted_size));
      if (key.text() != nullptr) {
        BATON_RETURN_IF_ERROR(Write(key, level));
      } else {
        BATON_RETURN_IF_ERROR(builder_.Append("\"", true));
        BATON_RETURN_IF_ERROR(Write(key, level));
        BATON_RETURN_IF_ERROR(builder_.Append("\"", true));
      }
      BATON_RETURN_IF_ERROR(builder_.Append(": ", true));
      BATON_RETURN_IF_ERROR(Write(value, level + 1));
    }
    return Close("}", level);
  }

  // `trusted`: whether the number of separators is.
  absl::Status Separate(bool first, int64_t level, bool trusted) {
    if (indent_ < 0) return first ? absl::OkStatus() : builder_.Append(", ", trusted);
    if (!first) BATON_RETURN_IF_ERROR(builder_.Append(",", trusted));
    return NewLine(level, trusted);
  }

  absl::Status NewLine(int64_t level, bool trusted) {
    const std::string spaces(static_cast<size_t>(indent_ * level), ' ');
    return builder_.Append(absl::StrCat("\n", spaces), trusted);
  }

  absl::Status Close(absl::string_view bracket, int64_t level) {
    if (indent_ >= 0) BATON_RETURN_IF_ERROR(NewLine(level, true));
    return builder_.Append(bracket, true);
  }

  Workspace& workspace_;
  const int64_t indent_;  // spaces for each level; negative: all on one line
  const bool ascii_;      // characters outside ASCII are escaped
  TextBuilder builder_;
};

}  // namespace

absl::StatusOr<Value> ToJson(Workspace& workspace, const Value& subject, const Value* indent,
                             bool ascii) {
  int64_t spaces = -1;
  if (indent != nullptr && !indent->Is<None>()) {
    if (!indent->IsInteger() || indent->Integer() < 0 || indent->Integer() > kMaxIndent) {
      return absl::InvalidArgumentError(
          absl::StrCat("tojson takes an indent from 0 to ", kMaxIndent));
    }
    spaces = indent->Integer();
  }
  JsonWriter writer(workspace, spaces, ascii);
  BATON_RETURN_IF_ERROR(writer.Write(subject, 0));
  return writer.Finish();
}

}  // namespace baton::jinja
