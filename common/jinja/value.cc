#include "common/jinja/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace baton::jinja {
namespace {

absl::StatusOr<int> ChildDepth(const Value& value) {
  int depth = 0;
  if (const List* list = value.list()) depth = list->depth;
  if (const Dict* dict = value.dict()) depth = dict->depth;
  if (depth >= kMaxContainerDepth) {
    return absl::ResourceExhaustedError(
        absl::StrCat("lists nested deeper than ", kMaxContainerDepth));
  }
  return depth;
}

absl::StatusOr<bool> ListsEqual(Workspace& workspace, const List& a, const List& b) {
  if (a.items.size() != b.items.size()) return false;
  for (size_t i = 0; i < a.items.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(const bool equal, Equals(workspace, a.items[i], b.items[i]));
    if (!equal) return false;
  }
  return true;
}

absl::StatusOr<bool> DictsEqual(Workspace& workspace, const Dict& a, const Dict& b) {
  if (a.items.size() != b.items.size()) return false;
  for (const auto& [key, value] : a.items) {
    bool found = false;
    for (const auto& [other_key, other_value] : b.items) {
      BATON_ASSIGN_OR_RETURN(const bool same_key, Equals(workspace, key, other_key));
      if (!same_key) continue;
      BATON_ASSIGN_OR_RETURN(found, Equals(workspace, value, other_value));
      break;
    }
    if (!found) return false;
  }
  return true;
}

}  // namespace

int64_t Value::Integer() const {
  if (const bool* boolean = If<bool>()) return *boolean ? 1 : 0;
  return std::get<int64_t>(data);
}

double Value::Number() const {
  if (const double* number = If<double>()) return *number;
  return static_cast<double>(Integer());
}

const Value* Dict::Find(absl::string_view key) const {
  for (const auto& [item_key, value] : items) {
    if (const Text* text = item_key.text(); text != nullptr && text->bytes() == key) return &value;
  }
  return nullptr;
}

absl::Status Workspace::Step(size_t count) {
  if (count > kMaxSteps - steps_) {
    steps_ = kMaxSteps;
    return absl::ResourceExhaustedError(absl::StrCat("more than ", kMaxSteps, " steps"));
  }
  steps_ += count;
  return absl::OkStatus();
}

absl::Status Workspace::CheckRoom(size_t bytes) const {
  if (bytes > kMaxMemoryBytes - memory_bytes_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("more than ", kMaxMemoryBytes >> 20, " MiB of memory"));
  }
  return absl::OkStatus();
}

absl::Status Workspace::Take(size_t bytes) {
  BATON_RETURN_IF_ERROR(CheckRoom(bytes));
  memory_bytes_ += bytes;
  return absl::OkStatus();
}

absl::StatusOr<Value> Workspace::NewText(Text text) {
  BATON_RETURN_IF_ERROR(Take(text.MemoryBytes()));
  texts_.push_back(std::move(text));
  return Value{&texts_.back()};
}

absl::StatusOr<Value> Workspace::NewText(absl::string_view bytes, bool trusted) {
  BATON_RETURN_IF_ERROR(CheckRoom(bytes.size()));
  return NewText(Text(bytes, trusted));
}

absl::StatusOr<Value> Workspace::NewList(std::vector<Value> items) {
  BATON_RETURN_IF_ERROR(Take(sizeof(List) + items.size() * sizeof(Value)));
  int depth = 0;
  for (const Value& item : items) {
    BATON_ASSIGN_OR_RETURN(const int child_depth, ChildDepth(item));
    depth = std::max(depth, child_depth);
  }
  lists_.push_back({.items = std::move(items), .depth = depth + 1});
  return Value{&lists_.back()};
}

absl::StatusOr<Value> Workspace::NewGenerator(std::vector<Value> items) {
  BATON_ASSIGN_OR_RETURN(const Value list, NewList(std::move(items)));
  lists_.back().generator = true;
  return list;
}

absl::StatusOr<Value> Workspace::NewDict(std::vector<std::pair<Value, Value>> items) {
  BATON_RETURN_IF_ERROR(Take(sizeof(Dict) + items.size() * 2 * sizeof(Value)));
  Dict dict;
  int depth = 0;
  for (auto& [key, value] : items) {
    if (key.text() == nullptr && !key.IsNumber()) {
      return absl::InvalidArgumentError(absl::StrCat("a dict key is a ", Describe(key)));
    }
    BATON_ASSIGN_OR_RETURN(const int child_depth, ChildDepth(value));
    depth = std::max(depth, child_depth);
    bool replaced = false;
    for (auto& [old_key, old_value] : dict.items) {
      BATON_ASSIGN_OR_RETURN(replaced, Equals(*this, old_key, key));
      if (!replaced) continue;
      old_value = value;
      break;
    }
    if (!replaced) dict.items.emplace_back(key, value);
  }
  dict.depth = depth + 1;
  dicts_.push_back(std::move(dict));
  return Value{&dicts_.back()};
}

absl::StatusOr<Value> Workspace::NewNamespace(
    std::vector<std::pair<std::string, Value>> attributes) {
  BATON_RETURN_IF_ERROR(Take(sizeof(Namespace) + attributes.size() * sizeof(attributes.front())));
  namespaces_.push_back({.attributes = std::move(attributes)});
  return Value{&namespaces_.back()};
}

absl::StatusOr<Loop*> Workspace::NewLoop(const List* items) {
  BATON_RETURN_IF_ERROR(Take(sizeof(Loop)));
  loops_.push_back({.items = items});
  return &loops_.back();
}

absl::Status TextBuilder::Append(absl::string_view bytes, bool trusted) {
  BATON_RETURN_IF_ERROR(
      workspace_.CheckRoom(text_.MemoryBytes() + bytes.size() + sizeof(Text::Run)));
  text_.Append(bytes, trusted);
  return absl::OkStatus();
}

absl::Status TextBuilder::AppendSlice(const Text& text, size_t begin, size_t end) {
  BATON_RETURN_IF_ERROR(workspace_.CheckRoom(text_.MemoryBytes() + (end - begin)));
  text_.AppendSlice(text, begin, end);
  return absl::OkStatus();
}

bool IsTrue(const Value& value) {
  if (value.Is<Undefined>() || value.Is<None>()) return false;
  if (value.IsNumber()) return value.Number() != 0;
  if (const Text* text = value.text()) return !text->empty();
  if (const List* list = value.list()) return list->generator || !list->items.empty();
  if (const Dict* dict = value.dict()) return !dict->items.empty();
  return true;
}

std::string Describe(const Value& value) {
  if (const Undefined* undefined = value.If<Undefined>()) {
    return absl::StrCat("undefined value '", undefined->name, "'");
  }
  if (value.Is<None>()) return "none";
  if (value.Is<bool>()) return "boolean";
  if (value.IsInteger()) return "integer";
  if (value.IsNumber()) return "float";
  if (value.text() != nullptr) return "string";
  if (const List* list = value.list()) return list->generator ? "generator (use list)" : "list";
  if (value.dict() != nullptr) return "dict";
  if (value.Is<Namespace*>()) return "namespace";
  if (value.Is<const Loop*>()) return "loop variable";
  return "function";
}

absl::StatusOr<const Text*> ToText(Workspace& workspace, const Value& value) {
  if (const Text* text = value.text()) {
    BATON_RETURN_IF_ERROR(workspace.StepBytes(text->size()));
    return text;
  }
  std::string bytes;
  if (value.Is<None>()) {
    bytes = "None";
  } else if (const bool* boolean = value.If<bool>()) {
    bytes = *boolean ? "True" : "False";
  } else if (value.IsInteger()) {
    bytes = absl::StrCat(value.Integer());
  } else if (value.IsNumber()) {
    bytes = FormatFloat(value.Number());
  } else if (!value.Is<Undefined>()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a ", Describe(value), " cannot be text (use tojson)"));
  }
  BATON_ASSIGN_OR_RETURN(const Value text, workspace.NewText(bytes, value.trusted));
  return text.text();
}

std::string FormatFloat(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 400> buffer;
  const double magnitude = std::fabs(value);
  const bool fixed = magnitude == 0 || (magnitude >= 1e-4 && magnitude < 1e16);
  const auto end = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value,
                                 fixed ? std::chars_format::fixed : std::chars_format::scientific);
  BATON_CHECK(end.ec == std::errc(), "a double has at most 400 digits");
  std::string text(buffer.data(), end.ptr);
  if (fixed && text.find('.') == std::string::npos) text += ".0";
  return text;
}

absl::StatusOr<bool> Equals(Workspace& workspace, const Value& a, const Value& b) {
  BATON_RETURN_IF_ERROR(workspace.Step());
  if (a.IsInteger() && b.IsInteger()) return a.Integer() == b.Integer();
  if (a.IsNumber() && b.IsNumber()) return a.Number() == b.Number();
  if (a.data.index() != b.data.index()) return false;
  if (const Text* text = a.text()) {
    BATON_RETURN_IF_ERROR(workspace.StepBytes(text->size()));
    return text->bytes() == b.text()->bytes();
  }
  if (const List* list = a.list()) return ListsEqual(workspace, *list, *b.list());
  if (const Dict* dict = a.dict()) return DictsEqual(workspace, *dict, *b.dict());
  if (a.Is<Namespace*>()) return *a.If<Namespace*>() == *b.If<Namespace*>();
  if (a.Is<const Loop*>()) return *a.If<const Loop*>() == *b.If<const Loop*>();
  if (a.Is<const Statement*>()) return *a.If<const Statement*>() == *b.If<const Statement*>();
  if (a.Is<NativeFunction>()) return *a.If<NativeFunction>() == *b.If<NativeFunction>();
  return true;  // two undefined values, or two nones
}

absl::StatusOr<const List*> Iterate(Workspace& workspace, const Value& value) {
  if (const List* list = value.list()) return list;
  std::vector<Value> items;
  if (const Text* text = value.text()) {
    BATON_RETURN_IF_ERROR(workspace.Step(text->size()));
    for (size_t at = 0; at < text->size();) {
      const size_t end = at + CharacterSize(text->bytes(), at);
      BATON_ASSIGN_OR_RETURN(const Value item, workspace.NewText(text->Slice(at, end)));
      items.push_back(item);
      at = end;
    }
  } else if (const Dict* dict = value.dict()) {
    for (const auto& item : dict->items) items.push_back(item.first);
  } else if (!value.Is<Undefined>()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot iterate over a ", Describe(value)));
  }
  BATON_ASSIGN_OR_RETURN(const Value list, workspace.NewList(std::move(items)));
  return list.list();
}

bool TrustOf(const Value& value) {
  if (const Text* text = value.text()) return text->trusted();
  return value.trusted;
}

}  // namespace baton::jinja
