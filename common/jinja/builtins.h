// The filters, tests and methods that chat templates may use.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/jinja/value.h"

namespace baton::jinja {

// Arguments in the order of Builtin::parameters; null where the template gave none.
using Arguments = absl::Span<const Value* const>;

struct Builtin {
  absl::string_view name;
  size_t required = 0;  // so many of `parameters` must be given
  std::vector<absl::string_view> parameters;
  absl::StatusOr<Value> (*run)(Workspace& workspace, const Value& subject, Arguments arguments);
};

// The filter, test or method of that name; null when there is none. Tests answer booleans.
const Builtin* FindFilter(absl::string_view name);
const Builtin* FindTest(absl::string_view name);
const Builtin* FindMethod(absl::string_view name);

// The tables behind them.
absl::Span<const Builtin> TextFilters();
absl::Span<const Builtin> ListFilters();
absl::Span<const Builtin> Tests();
absl::Span<const Builtin> Methods();

// --- What filters, methods and operators share.
absl::StatusOr<Value> StripText(Workspace& workspace, const Value& subject, const Value* characters,
                                bool left, bool right);
absl::StatusOr<Value> ReplaceText(Workspace& workspace, const Value& subject, const Value& from,
                                  const Value& to, const Value* count);
// kTitle is the method, which starts a word at every letter after something else; kTitleWords the
// filter, which starts one after white space and opening brackets.
enum class LetterCase { kUpper, kLower, kTitle, kTitleWords, kCapitalize };
// ASCII letters only; other characters stay as they are.
absl::StatusOr<Value> ChangeCase(Workspace& workspace, const Value& subject,
                                 LetterCase letter_case);
absl::StatusOr<Value> JoinTexts(Workspace& workspace, const List& items, const Text& separator);
absl::StatusOr<Value> ItemsOf(Workspace& workspace, const Dict& dict);  // [[key, value], ...]
absl::StatusOr<Value> ToJson(Workspace& workspace, const Value& subject, const Value* indent);
// `value.name` and `value["name"]`; undefined when there is none, an error on an undefined value.
absl::StatusOr<Value> Attribute(Workspace& workspace, const Value& value, absl::string_view name);
// a in b.
absl::StatusOr<bool> Contains(Workspace& workspace, const Value& container, const Value& item);
// -1, 0 or 1; an error unless both are numbers or both strings.
absl::StatusOr<int> Compare(Workspace& workspace, const Value& a, const Value& b);
// Position of `needle` in `text` from `from` on, in linear time whatever they hold; npos when
// absent.
size_t FindBytes(absl::string_view text, absl::string_view needle, size_t from);

}  // namespace baton::jinja
