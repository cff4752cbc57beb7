// The values of expressions in a chat template.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/jinja/text.h"

namespace baton::jinja {

struct Dict;
struct List;
struct Loop;
struct Namespace;
struct Statement;
class Workspace;

struct Undefined {
  absl::string_view name;  // for error messages; lives as long as the template
};
struct None {};
enum class NativeFunction { kRaiseException, kNamespace, kRange, kStrftimeNow };

// The value of an expression, a small handle: strings and containers belong to the Workspace, or to
// the template if they are literals.
struct Value {
  std::variant<Undefined, None, bool, int64_t, double, const Text*, const List*, const Dict*,
               Namespace*, const Loop*, NativeFunction, const Statement*>
      data;  // a const Statement* is a macro
  // Whether a number or boolean may be trusted: false if it was computed from the text of a
  // message. Other values do not use it; a Text knows the trust of each byte.
  bool trusted = true;

  template <typename T>
  bool Is() const {
    return std::holds_alternative<T>(data);
  }
  template <typename T>
  const T* If() const {
    return std::get_if<T>(&data);
  }
  const Text* text() const { return Is<const Text*>() ? std::get<const Text*>(data) : nullptr; }
  const List* list() const { return Is<const List*>() ? std::get<const List*>(data) : nullptr; }
  const Dict* dict() const { return Is<const Dict*>() ? std::get<const Dict*>(data) : nullptr; }
  // Booleans count as 0 and 1, as in Python.
  bool IsInteger() const { return Is<bool>() || Is<int64_t>(); }
  bool IsNumber() const { return IsInteger() || Is<double>(); }
  // REQUIRES: IsInteger().
  int64_t Integer() const;
  // REQUIRES: IsNumber().
  double Number() const;
};

// Containers are immutable once made, except namespaces. Their `depth` counts the levels of
// containers in containers.
struct List {
  std::vector<Value> items;
  int depth = 1;
  // Jinja's map, select and similar filters return a generator, which is always true and has no
  // length.
  bool generator = false;
  // Whether the number of items may be trusted: false if the text of a message decides it.
  bool trusted_size = true;
  bool trusted = true;  // whether that number and all items may be
};
struct Dict {
  std::vector<std::pair<Value, Value>> items;  // keys: strings or numbers, in order of insertion
  int depth = 1;
  bool trusted_size = true;  // as in List
  bool trusted = true;
  const Text* json_source = nullptr;  // the JSON text that it was read from, if that is kept
};
struct Namespace {
  std::vector<std::pair<absl::string_view, Value>> attributes;  // names of the template
};
struct Loop {
  const List* items = nullptr;
  size_t index = 0;
};

// Whether a value is true, as Python's bool() says.
bool IsTrue(const Value& value);
// The type of a value for error messages: "string", "none", "undefined value 'x'", ...
std::string Describe(const Value& value);
// The text of a value, as Python's str() makes it: of lists and dicts as repr.h says. An error for
// generators, namespaces and functions. Counts the steps of reading the text once.
absl::StatusOr<const Text*> ToText(Workspace& workspace, const Value& value);
// The text of a float, as Python's repr() makes it.
std::string FormatFloat(double value);
absl::StatusOr<bool> Equals(Workspace& workspace, const Value& a, const Value& b);
// The items that a `for` visits: those of a list, the keys of a dict, the characters of a string;
// none for an undefined value, an error for any other.
absl::StatusOr<const List*> Iterate(Workspace& workspace, const Value& value);
// Returns the value of a key that is text; null if there is none.
absl::StatusOr<const Value*> FindItem(Workspace& workspace, const Dict& dict,
                                      absl::string_view key);
// Whether a number or boolean that is computed from `value` may be trusted.
bool TrustOf(const Value& value);
// The beginning of a text, as long as an error may hold.
absl::string_view Shortened(absl::string_view text);

}  // namespace baton::jinja
