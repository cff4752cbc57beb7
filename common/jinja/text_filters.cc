// The filters of text, and the text operations that methods use too.
#include <string.h>  // NOLINT(modernize-deprecated-headers): memmem is no C++

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/jinja/builtins.h"

namespace baton::jinja {
namespace {

absl::StatusOr<bool> HoldsCharacter(Workspace& workspace, absl::string_view set,
                                    absl::string_view character) {
  for (size_t at = 0; at < set.size();) {
    BATON_RETURN_IF_ERROR(workspace.StepByte());
    const size_t size = CharacterSize(set, at);
    if (set.substr(at, size) == character) return true;
    at += size;
  }
  return false;
}

// Whether to strip the character bytes[at, at + size): white space, or if given a character of
// `set`.
absl::StatusOr<bool> IsStripped(Workspace& workspace, absl::string_view bytes, size_t at,
                                size_t size, const Text* set) {
  BATON_RETURN_IF_ERROR(workspace.StepByte());
  if (set != nullptr) return HoldsCharacter(workspace, set->bytes(), bytes.substr(at, size));
  return SpaceSize(bytes, at) == size;
}

char ChangedCase(char c, bool upper) {
  const auto byte = static_cast<unsigned char>(c);
  return static_cast<char>(upper ? absl::ascii_toupper(byte) : absl::ascii_tolower(byte));
}

absl::StatusOr<Value> Trim(Workspace& workspace, const Value& subject, Arguments arguments) {
  return StripText(workspace, subject, arguments[0], true, true);
}

template <LetterCase letter_case>
absl::StatusOr<Value> Case(Workspace& workspace, const Value& subject, Arguments) {
  return ChangeCase(workspace, subject, letter_case);
}

absl::StatusOr<Value> Replace(Workspace& workspace, const Value& subject, Arguments arguments) {
  return ReplaceText(workspace, subject, *arguments[0], *arguments[1], arguments[2]);
}

absl::StatusOr<Value> ToJsonText(Workspace& workspace, const Value& subject, Arguments arguments) {
  const bool ascii = arguments[0] != nullptr && IsTrue(*arguments[0]);
  return ToJson(workspace, subject, arguments[1], ascii);
}

// Templates name the filter from_json where arguments of a call are text; transformers has none.
absl::StatusOr<Value> FromJson(Workspace&, const Value&, Arguments) {
  return absl::InvalidArgumentError(
      "the filter 'from_json' is not supported; send the arguments of a tool call as an object");
}

// The bytes of the line break at `at`, 0 if there is none; Python's str.splitlines() knows more
// of them than "\n".
size_t BreakSize(absl::string_view bytes, size_t at) {
  const absl::string_view rest = bytes.substr(at);
  if (absl::StartsWith(rest, "\r\n")) return 2;
  const char c = rest[0];
  if ((c >= '\n' && c <= '\r') || (c >= '\x1c' && c <= '\x1e')) return 1;
  if (absl::StartsWith(rest, "\xc2\x85")) return 2;
  return absl::StartsWith(rest, "\xe2\x80\xa8") || absl::StartsWith(rest, "\xe2\x80\xa9") ? 3 : 0;
}

// The filter indent: puts spaces before each line that is not empty, unless `blank`, and before the
// first one only if `first`.
absl::StatusOr<Value> Indent(Workspace& workspace, const Value& subject, Arguments arguments) {
  constexpr int64_t kMaxWidth = 64;
  if (arguments[0] != nullptr && (!arguments[0]->IsInteger() || arguments[0]->Integer() < 0 ||
                                  arguments[0]->Integer() > kMaxWidth)) {
    return absl::InvalidArgumentError(absl::StrCat("indent takes a width from 0 to ", kMaxWidth));
  }
  const int64_t width = arguments[0] != nullptr ? arguments[0]->Integer() : 4;
  const std::string spaces(static_cast<size_t>(width), ' ');
  const bool first = arguments[1] != nullptr && IsTrue(*arguments[1]);
  const bool blank = arguments[2] != nullptr && IsTrue(*arguments[2]);
  BATON_ASSIGN_OR_RETURN(const Text* text, ToText(workspace, subject));
  const absl::string_view bytes = text->bytes();
  TextBuilder builder(workspace);
  if (first) BATON_RETURN_IF_ERROR(builder.Append(spaces, true));
  for (size_t at = 0; at <= bytes.size();) {
    size_t end = at;
    while (end < bytes.size() && BreakSize(bytes, end) == 0) {
      BATON_RETURN_IF_ERROR(workspace.StepByte());
      ++end;
    }
    // A message must not choose how often the spaces appear as text of the template.
    if (at > 0 && (blank || end > at)) {
      BATON_RETURN_IF_ERROR(builder.Append(spaces, text->trusted()));
    }
    BATON_RETURN_IF_ERROR(builder.AppendSlice(*text, at, end));
    if (end == bytes.size()) break;
    at = end + BreakSize(bytes, end);
    BATON_RETURN_IF_ERROR(builder.Append("\n", text->TrustedBetween(end, at)));
  }
  return builder.Finish();
}

absl::StatusOr<Value> String(Workspace& workspace, const Value& subject, Arguments) {
  BATON_ASSIGN_OR_RETURN(const Text* text, ToText(workspace, subject));
  return Value{text};
}

absl::StatusOr<Value> Default(Workspace&, const Value& subject, Arguments arguments) {
  const bool when_false = arguments[1] != nullptr && IsTrue(*arguments[1]);
  if (!subject.Is<Undefined>() && !(when_false && !IsTrue(subject))) return subject;
  if (arguments[0] != nullptr) return *arguments[0];
  static const Text& empty = *new Text();
  return Value{&empty};
}

// The filter int. As Python's int() it truncates a float; a string is read as an integer, else as a
// float.
absl::StatusOr<Value> Int(Workspace& workspace, const Value& subject, Arguments arguments) {
  Value fallback = arguments[0] != nullptr ? *arguments[0] : Value{int64_t{0}};
  fallback.trusted = fallback.trusted && TrustOf(subject);
  if (subject.IsInteger()) return Value{subject.Integer(), subject.trusted};
  if (subject.Is<Undefined>()) {
    return absl::InvalidArgumentError(absl::StrCat("int cannot convert an ", Describe(subject)));
  }
  double number = std::numeric_limits<double>::quiet_NaN();
  if (subject.IsNumber()) number = subject.Number();
  if (subject.text() != nullptr) {
    BATON_ASSIGN_OR_RETURN(const Text* text, ToText(workspace, subject));
    const absl::string_view bytes = text->bytes();
    size_t begin = SkipSpace(bytes, 0, bytes.size());
    const size_t end = SkipSpaceBackwards(bytes, begin, bytes.size());
    if (end - begin > 1 && bytes[begin] == '+' && bytes[begin + 1] != '-') ++begin;
    int64_t integer = 0;
    const auto parsed = std::from_chars(bytes.data() + begin, bytes.data() + end, integer);
    if (parsed.ec == std::errc() && parsed.ptr == bytes.data() + end) {
      return Value{integer, text->trusted()};
    }
    const auto read = std::from_chars(bytes.data() + begin, bytes.data() + end, number);
    if (read.ec != std::errc() || read.ptr != bytes.data() + end) return fallback;
  }
  if (!(std::fabs(number) < 9.2e18)) return fallback;
  return Value{static_cast<int64_t>(number), TrustOf(subject)};
}

}  // namespace

absl::StatusOr<size_t> FindBytes(Workspace& workspace, absl::string_view text,
                                 absl::string_view needle, size_t from) {
  if (needle.empty() || from > text.size()) return from <= text.size() ? from : text.npos;
  // In parts, so that the clock is looked at between them.
  const size_t part = std::max<size_t>(size_t{64} << 10, needle.size());
  for (; text.size() - from >= needle.size(); from += part) {
    const size_t size = std::min(text.size() - from, part + needle.size() - 1);
    const void* at = memmem(text.data() + from, size, needle.data(), needle.size());
    const size_t found =
        at != nullptr ? static_cast<size_t>(static_cast<const char*>(at) - text.data()) : text.npos;
    BATON_RETURN_IF_ERROR(
        workspace.StepBytes(needle.size() + (found == text.npos ? size : found - from)));
    if (found != text.npos || size < part + needle.size() - 1) return found;
  }
  return absl::string_view::npos;
}

absl::StatusOr<Value> StripText(Workspace& workspace, const Value& subject, const Value* characters,
                                bool left, bool right) {
  BATON_ASSIGN_OR_RETURN(const Text* text, ToText(workspace, subject));
  const Text* set = nullptr;
  if (characters != nullptr && !characters->Is<None>()) {
    set = characters->text();
    if (set == nullptr) {
      return absl::InvalidArgumentError("the characters to strip must be a string");
    }
  }
  const absl::string_view bytes = text->bytes();
  size_t begin = 0;
  size_t end = bytes.size();
  while (left && begin < end) {  // no step: IsStripped counts them
    const size_t size = CharacterSize(bytes, begin);
    BATON_ASSIGN_OR_RETURN(const bool stripped, IsStripped(workspace, bytes, begin, size, set));
    if (!stripped) break;
    begin += size;
  }
  while (right && begin < end) {  // no step: as above
    const size_t size = LastCharacterSize(bytes, begin, end);
    BATON_ASSIGN_OR_RETURN(const bool stripped,
                           IsStripped(workspace, bytes, end - size, size, set));
    if (!stripped) break;
    end -= size;
  }
  if (begin == 0 && end == bytes.size()) return Value{text};
  return workspace.NewSlice(*text, begin, end);
}

absl::StatusOr<Value> ReplaceText(Workspace& workspace, const Value& subject, const Value& from,
                                  const Value& to, const Value* count) {
  BATON_ASSIGN_OR_RETURN(const Text* text, ToText(workspace, subject));
  BATON_ASSIGN_OR_RETURN(const Text* needle, ToText(workspace, from));
  BATON_ASSIGN_OR_RETURN(const Text* replacement, ToText(workspace, to));
  if (needle->empty()) {
    return absl::InvalidArgumentError("replace() cannot replace an empty string");
  }
  int64_t left = -1;
  if (count != nullptr && !count->Is<None>()) {
    if (!count->IsInteger()) {
      return absl::InvalidArgumentError("the count of replace() must be an integer");
    }
    left = count->Integer();
  }
  TextBuilder builder(workspace);
  size_t at = 0;
  for (; left != 0; --left) {
    BATON_ASSIGN_OR_RETURN(const size_t found,
                           FindBytes(workspace, text->bytes(), needle->bytes(), at));
    if (found == absl::string_view::npos) break;
    const size_t end = found + needle->size();
    BATON_RETURN_IF_ERROR(builder.AppendSlice(*text, at, found));
    // A message must not choose where text of the template appears, so the replacement of untrusted
    // bytes is untrusted.
    if (text->TrustedBetween(found, end)) {
      BATON_RETURN_IF_ERROR(builder.Append(*replacement));
    } else {
      BATON_RETURN_IF_ERROR(builder.Append(replacement->bytes(), false));
    }
    at = end;
  }
  BATON_RETURN_IF_ERROR(builder.AppendSlice(*text, at, text->size()));
  return builder.Finish();
}

absl::StatusOr<Value> ChangeCase(Workspace& workspace, const Value& subject,
                                 LetterCase letter_case) {
  BATON_ASSIGN_OR_RETURN(const Text* text, ToText(workspace, subject));
  BATON_RETURN_IF_ERROR(workspace.CheckRoom(text->MemoryBytes()));
  Text changed = *text;
  bool in_word = false;
  for (char& c : changed.mutable_bytes()) {
    BATON_RETURN_IF_ERROR(workspace.StepByte());
    const bool starts = !in_word;
    switch (letter_case) {
      case LetterCase::kUpper:
        c = ChangedCase(c, true);
        break;
      case LetterCase::kLower:
        c = ChangedCase(c, false);
        break;
      case LetterCase::kTitle: {
        const auto byte = static_cast<unsigned char>(c);
        in_word = absl::ascii_isalpha(byte) || byte >= 0x80;
        c = ChangedCase(c, starts);
        break;
      }
      case LetterCase::kTitleWords:
        in_word =
            !absl::ascii_isspace(static_cast<unsigned char>(c)) && !absl::StrContains("-({[<", c);
        c = ChangedCase(c, starts);
        break;
      case LetterCase::kCapitalize:
        in_word = true;
        c = ChangedCase(c, starts);
        break;
    }
  }
  return workspace.NewText(std::move(changed));
}

absl::StatusOr<Value> JoinTexts(Workspace& workspace, const List& items, const Text& separator) {
  TextBuilder builder(workspace);
  for (size_t i = 0; i < items.items.size(); ++i) {
    // A message must not choose how often text of the template appears.
    if (i > 0 && items.trusted_size) BATON_RETURN_IF_ERROR(builder.Append(separator));
    if (i > 0 && !items.trusted_size) {
      BATON_RETURN_IF_ERROR(builder.Append(separator.bytes(), false));
    }
    BATON_ASSIGN_OR_RETURN(const Text* item, ToText(workspace, items.items[i]));
    BATON_RETURN_IF_ERROR(builder.Append(*item));
  }
  return builder.Finish();
}

absl::Span<const Builtin> TextFilters() {
  static const std::vector<Builtin>& filters = *new std::vector<Builtin>{
      {"trim", 0, {"chars"}, Trim},
      {"upper", 0, {}, Case<LetterCase::kUpper>},
      {"lower", 0, {}, Case<LetterCase::kLower>},
      {"title", 0, {}, Case<LetterCase::kTitleWords>},
      {"capitalize", 0, {}, Case<LetterCase::kCapitalize>},
      {"replace", 2, {"old", "new", "count"}, Replace},
      {"tojson", 0, {"ensure_ascii", "indent"}, ToJsonText},
      {"from_json", 0, {}, FromJson},
      {"indent", 0, {"width", "first", "blank"}, Indent},
      {"string", 0, {}, String},
      {"safe", 0, {}, String},
      {"int", 0, {"default"}, Int},
      {"default", 0, {"default_value", "boolean"}, Default},
      {"d", 0, {"default_value", "boolean"}, Default},
  };
  return filters;
}

}  // namespace baton::jinja
