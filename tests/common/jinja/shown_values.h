// Values for tests of the interpreter's parts, and a written form that shows who wrote each byte.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"

#include "common/jinja/builtins.h"
#include "common/jinja/workspace.h"

namespace baton::jinja {

// What a message wrote stands between < and >.
inline std::string Shown(const Text& text) {
  std::string shown;
  size_t begin = 0;
  for (const Text::Run& run : text.runs()) {
    const absl::string_view bytes = text.bytes().substr(begin, run.end - begin);
    absl::StrAppend(&shown, run.trusted ? "" : "<", bytes, run.trusted ? "" : ">");
    begin = run.end;
  }
  return shown;
}

// 'text', [list], (generator), {'key': value}; an untrusted number or boolean between < and >.
inline std::string Shown(const Value& value) {
  if (const Text* text = value.text()) return absl::StrCat("'", Shown(*text), "'");
  if (const List* list = value.list()) {
    const std::string items = absl::StrJoin(
        list->items, ", ", [](std::string* out, const Value& item) { *out += Shown(item); });
    return list->generator ? absl::StrCat("(", items, ")") : absl::StrCat("[", items, "]");
  }
  if (const Dict* dict = value.dict()) {
    const auto write = [](std::string* out, const std::pair<Value, Value>& item) {
      absl::StrAppend(out, Shown(item.first), ": ", Shown(item.second));
    };
    return absl::StrCat("{", absl::StrJoin(dict->items, ", ", write), "}");
  }
  if (value.Is<None>()) return "none";
  if (value.Is<Undefined>()) return "undefined";
  std::string shown = Describe(value);
  if (const bool* boolean = value.If<bool>()) {
    shown = *boolean ? "true" : "false";
  } else if (value.IsInteger()) {
    shown = absl::StrCat(value.Integer());
  } else if (value.IsNumber()) {
    shown = FormatFloat(value.Number());
  }
  return value.trusted ? shown : absl::StrCat("<", shown, ">");
}

template <typename T>
std::string Shown(const absl::StatusOr<T>& result) {
  return result.ok() ? Shown(*result) : absl::StrCat("error: ", result.status().message());
}

// Makes values, and calls builtins by name. Owns all of them.
class TestValues {
 public:
  Value Own(absl::string_view bytes) { return *workspace_.NewText(bytes, true); }
  Value Message(absl::string_view bytes) { return *workspace_.NewText(bytes, false); }
  Value ListOf(std::vector<Value> items) { return *workspace_.NewList(std::move(items)); }
  Value Generator(std::vector<Value> items) {
    return *workspace_.NewList(std::move(items), {.generator = true});
  }
  Value DictOf(const std::vector<std::pair<Value, Value>>& items) {
    return *workspace_.NewDict(items);
  }
  static Value Int(int64_t number, bool trusted = true) { return Value{number, trusted}; }
  static Value Missing() { return Value{Undefined{"missing"}}; }

  // `arguments` in the order of the builtin's parameters; those that are not there are not given,
  // and neither is one that is undefined.
  std::string Call(const Builtin* builtin, const Value& subject,
                   const std::vector<Value>& arguments = {}) {
    if (builtin == nullptr) return "no such builtin";
    std::vector<const Value*> given(builtin->parameters.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (!arguments[i].Is<Undefined>()) given.at(i) = &arguments[i];
    }
    return Shown(builtin->run(workspace_, subject, given));
  }

  Workspace& workspace() { return workspace_; }

 private:
  Workspace workspace_;
};

}  // namespace baton::jinja
