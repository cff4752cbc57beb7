// Checks a JSON schema for what no grammar would hold an answer to. XGrammar ignores such keywords,
// and others where they stand beside each other; Baton reports them to the client instead. So it is
// of a part whose values never end.
//
// What is left is enforced as JSON Schema says, and is at most narrower:
// - keywords about values of one type want that type, if no other is named;
// - an object with `properties` or `required` has no other ones, as if additionalProperties were
//   false; one without has any;
// - properties come in the order of the schema, then those that `required` alone names;
// - a string with a pattern matches it as a whole; one with a pattern, a format or a length has no
//   character that JSON escapes;
// - a number with a bound has at most six decimals and no exponent, an integer no decimal point,
//   and a constant is written as in the schema; int64 is from -10^18 to 10^18;
// - of a format, strings that an expression cannot describe are left out (string_format.h).
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton {

// Levels of nesting of a schema's JSON.
inline constexpr int kMaxSchemaDepth = 64;

struct CheckedSchema {
  // The schema for XGrammar 0.2.8: without annotations, with what JSON Schema leaves unsaid, and in
  // the forms that the library enforces.
  std::string text;
  // The client's own patterns, which the library may yet be unable to hold a JSON string to.
  struct Pattern {
    std::string pointer;
    std::string expression;
  };
  std::vector<Pattern> patterns;
  // The keywords that bound strings or repeat parts of them, with the states that they want
  // (pattern_states.h).
  struct Repetition {
    std::string pointer;
    double states = 0;
  };
  std::vector<Repetition> repetitions;
};

// INVALID_ARGUMENT names what is wrong by its JSON pointer, as in "/properties/a/uniqueItems is not
// supported: ...". A pure function.
absl::StatusOr<CheckedSchema> CheckSchema(absl::string_view schema);

}  // namespace baton
