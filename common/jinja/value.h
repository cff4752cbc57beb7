// The values of expressions in a chat template, and the memory and budgets of one rendering.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/jinja/text.h"

namespace baton::jinja {

struct Dict;
struct List;
struct Loop;
struct Namespace;
struct Statement;

struct Undefined {
  absl::string_view name;  // for error messages; lives as long as the template
};
struct None {};
enum class NativeFunction { kRaiseException, kNamespace, kRange };

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
};
struct Dict {
  std::vector<std::pair<Value, Value>> items;  // keys: strings or numbers, in order of insertion
  int depth = 1;
  const Value* Find(absl::string_view key) const;
};
struct Namespace {
  std::vector<std::pair<std::string, Value>> attributes;
};
struct Loop {
  const List* items = nullptr;
  size_t index = 0;
};

// The limits of one rendering. Memory is freed only at its end, so kMaxMemoryBytes also bounds the
// bytes that are copied.
constexpr size_t kMaxSteps = 5'000'000;
constexpr size_t kMaxMemoryBytes = size_t{128} << 20;
constexpr size_t kMaxOutputBytes = size_t{32} << 20;
constexpr int kMaxEvaluationDepth = 500;
constexpr int kMaxContainerDepth = 64;

// Owns every value of one rendering and counts its steps and memory against the limits. Not
// thread-safe. RESOURCE_EXHAUSTED names the limit that is exceeded.
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;
  Workspace& operator=(const Workspace&) = delete;

  absl::Status Step(size_t count = 1);
  // Counts the steps of reading `bytes` bytes of text.
  absl::Status StepBytes(size_t bytes) { return Step(bytes / 64); }
  // Fails if `bytes` more bytes would exceed the limit. Takes no memory.
  absl::Status CheckRoom(size_t bytes) const;

  absl::StatusOr<Value> NewText(Text text);
  absl::StatusOr<Value> NewText(absl::string_view bytes, bool trusted);
  absl::StatusOr<Value> NewList(std::vector<Value> items);
  absl::StatusOr<Value> NewGenerator(std::vector<Value> items);
  // A later item replaces an earlier one with an equal key. A key that is neither text nor number
  // is an error.
  absl::StatusOr<Value> NewDict(std::vector<std::pair<Value, Value>> items);
  absl::StatusOr<Value> NewNamespace(std::vector<std::pair<std::string, Value>> attributes);
  absl::StatusOr<Loop*> NewLoop(const List* items);

 private:
  absl::Status Take(size_t bytes);

  size_t steps_ = 0;
  size_t memory_bytes_ = 0;
  std::deque<Text> texts_;
  std::deque<List> lists_;
  std::deque<Dict> dicts_;
  std::deque<Namespace> namespaces_;
  std::deque<Loop> loops_;
};

// A text that grows under the memory limit of the Workspace, which it borrows.
class TextBuilder {
 public:
  explicit TextBuilder(Workspace& workspace) : workspace_(workspace) {}
  absl::Status Append(absl::string_view bytes, bool trusted);
  absl::Status Append(const Text& text) { return AppendSlice(text, 0, text.size()); }
  absl::Status AppendSlice(const Text& text, size_t begin, size_t end);
  absl::StatusOr<Value> Finish() { return workspace_.NewText(std::move(text_)); }

 private:
  Workspace& workspace_;
  Text text_;
};

// Whether a value is true, as Python's bool() says.
bool IsTrue(const Value& value);
// The type of a value for error messages: "string", "none", "undefined value 'x'", ...
std::string Describe(const Value& value);
// The text of a value, as Python's str() makes it. An error for containers, whose Python form no
// prompt should hold. Counts the steps of reading the text once.
absl::StatusOr<const Text*> ToText(Workspace& workspace, const Value& value);
// The text of a float, as Python's repr() makes it.
std::string FormatFloat(double value);
absl::StatusOr<bool> Equals(Workspace& workspace, const Value& a, const Value& b);
// The items that a `for` visits: those of a list, the keys of a dict, the characters of a string;
// none for an undefined value, an error for any other.
absl::StatusOr<const List*> Iterate(Workspace& workspace, const Value& value);
// Whether a number or boolean that is computed from `value` may be trusted.
bool TrustOf(const Value& value);

}  // namespace baton::jinja
