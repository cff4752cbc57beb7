// The builtins of chat templates: filters, tests and methods.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/jinja/workspace.h"

namespace baton::jinja {

// Arguments in the order of Builtin::parameters. An argument that the template does not give is
// null.
using Arguments = absl::Span<const Value* const>;

struct Builtin {
  absl::string_view name;
  size_t required = 0;  // how many of `parameters` must be given
  std::vector<absl::string_view> parameters;
  absl::StatusOr<Value> (*run)(Workspace& workspace, const Value& subject, Arguments arguments);
};

// Finds the filter, test or method of a name; null if there is none. Tests return booleans.
const Builtin* FindFilter(absl::string_view name);
const Builtin* FindTest(absl::string_view name);
const Builtin* FindMethod(absl::string_view name);

// The tables that the functions above search.
absl::Span<const Builtin> TextFilters();
absl::Span<const Builtin> ListFilters();
absl::Span<const Builtin> OrderFilters();
absl::Span<const Builtin> Tests();
absl::Span<const Builtin> Methods();

// The functions below are shared by filters, methods and operators.
absl::StatusOr<Value> StripText(Workspace& workspace, const Value& subject, const Value* characters,
                                bool left, bool right);
absl::StatusOr<Value> ReplaceText(Workspace& workspace, const Value& subject, const Value& from,
                                  const Value& to, const Value* count);
// kTitle is the method title(): a word begins at every letter that follows no letter. kTitleWords
// is the filter title: a word begins after white space and opening brackets.
enum class LetterCase { kUpper, kLower, kTitle, kTitleWords, kCapitalize };
// Changes ASCII letters only; other characters stay as they are.
absl::StatusOr<Value> ChangeCase(Workspace& workspace, const Value& subject,
                                 LetterCase letter_case);
absl::StatusOr<Value> JoinTexts(Workspace& workspace, const List& items, const Text& separator);
absl::StatusOr<Value> ItemsOf(Workspace& workspace, const Dict& dict,
                              bool generator);  // [[key, value], ...]
// `ascii`: other characters are escaped.
absl::StatusOr<Value> ToJson(Workspace& workspace, const Value& subject, const Value* indent,
                             bool ascii = false);
// Returns `value.name`, which is also `value["name"]`: undefined if the value has no such
// attribute, an error if `value` is undefined.
absl::StatusOr<Value> Attribute(Workspace& workspace, const Value& value, absl::string_view name);
// Whether `item in container`.
absl::StatusOr<bool> Contains(Workspace& workspace, const Value& container, const Value& item);
// Returns -1, 0 or 1 for a < b, a == b and a > b; an error unless both are numbers or both strings.
absl::StatusOr<int> Compare(Workspace& workspace, const Value& a, const Value& b);
// Returns the first offset of `needle` in `text` at or after `from`, npos if there is none. Takes
// linear time for any bytes.
absl::StatusOr<size_t> FindBytes(Workspace& workspace, absl::string_view text,
                                 absl::string_view needle, size_t from);

}  // namespace baton::jinja
