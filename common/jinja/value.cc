#include "common/jinja/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/jinja/repr.h"
#include "common/jinja/workspace.h"

namespace baton::jinja {
namespace {

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
    return absl::StrCat("undefined value '", Shortened(undefined->name), "'");
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
  if (value.dict() != nullptr || (value.list() != nullptr && !value.list()->generator)) {
    return Repr(workspace, value);
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
        absl::StrCat("a ", Describe(value), " cannot be converted to text"));
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
  ListBuilder items(workspace);
  if (const Text* text = value.text()) {
    if (!text->trusted()) items.DistrustSize();
    for (size_t at = 0; at < text->size();) {
      const size_t end = at + CharacterSize(text->bytes(), at);
      BATON_ASSIGN_OR_RETURN(const Value item, workspace.NewSlice(*text, at, end));
      BATON_RETURN_IF_ERROR(items.Add(item));
      at = end;
    }
  } else if (const Dict* dict = value.dict()) {
    if (!dict->trusted_size) items.DistrustSize();
    for (const auto& item : dict->items) BATON_RETURN_IF_ERROR(items.Add(item.first));
  } else if (!value.Is<Undefined>()) {
    return absl::InvalidArgumentError(absl::StrCat("cannot iterate over a ", Describe(value)));
  }
  BATON_ASSIGN_OR_RETURN(const Value list, items.Finish());
  return list.list();
}

absl::StatusOr<const Value*> FindItem(Workspace& workspace, const Dict& dict,
                                      absl::string_view key) {
  BATON_RETURN_IF_ERROR(workspace.Step(dict.items.size() / 8));
  for (const auto& [item_key, value] : dict.items) {
    const Text* text = item_key.text();
    if (text == nullptr || text->size() != key.size()) continue;
    BATON_RETURN_IF_ERROR(workspace.StepBytes(key.size()));
    if (text->bytes() == key) return &value;
  }
  return nullptr;
}

bool TrustOf(const Value& value) {
  if (const Text* text = value.text()) return text->trusted();
  if (const List* list = value.list()) return list->trusted;
  if (const Dict* dict = value.dict()) return dict->trusted;
  return value.trusted;
}

absl::string_view Shortened(absl::string_view text) {
  constexpr size_t kMaxErrorBytes = 2048;
  if (text.size() <= kMaxErrorBytes) return text;
  size_t end = kMaxErrorBytes;
  // No step: at most 3 rounds. A character stays whole.
  while (end > kMaxErrorBytes - 3 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
  return text.substr(0, end);
}

}  // namespace baton::jinja
