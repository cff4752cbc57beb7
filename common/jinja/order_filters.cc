// The filters that compare the items of lists and dicts with each other.
#include <algorithm>
#include <bit>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/jinja/builtins.h"

namespace baton::jinja {
namespace {

// What an item is compared by.
struct KeyedItem {
  Value item;
  Value key;  // a text in lower case, unless case counts, or a number
};

// The keys of the items: their attribute, if there is one. An error unless all are numbers or all
// are strings.
absl::StatusOr<std::vector<KeyedItem>> KeysOf(Workspace& workspace, const std::vector<Value>& items,
                                              const Value* case_sensitive, const Value* attribute) {
  if (attribute != nullptr && attribute->text() == nullptr) {
    return absl::InvalidArgumentError("an attribute's name must be a string");
  }
  const bool lower = case_sensitive == nullptr || !IsTrue(*case_sensitive);
  std::vector<KeyedItem> ordered;
  BATON_RETURN_IF_ERROR(workspace.Take(items.size() * sizeof(KeyedItem)));
  ordered.reserve(items.size());
  for (const Value& item : items) {
    BATON_RETURN_IF_ERROR(workspace.Step());
    Value key = item;
    if (attribute != nullptr) {
      BATON_ASSIGN_OR_RETURN(key, Attribute(workspace, item, attribute->text()->bytes()));
    }
    if (lower && key.text() != nullptr) {
      BATON_ASSIGN_OR_RETURN(key, ChangeCase(workspace, key, LetterCase::kLower));
    }
    ordered.push_back({.item = item, .key = key});
  }
  return ordered;
}

absl::Status SortByKeys(Workspace& workspace, std::vector<KeyedItem>& ordered) {
  size_t bytes = 0;
  for (const KeyedItem& each : ordered) {
    BATON_RETURN_IF_ERROR(workspace.Step());
    BATON_RETURN_IF_ERROR(Compare(workspace, ordered.front().key, each.key).status());
    if (const Text* text = each.key.text()) bytes += text->size();
  }
  // Comparisons that cannot fail any more: as many as a merge sort makes.
  const auto rounds = static_cast<size_t>(std::bit_width(ordered.size()));
  BATON_RETURN_IF_ERROR(workspace.Step(rounds * ordered.size()));
  BATON_RETURN_IF_ERROR(workspace.StepBytes(rounds * bytes));
  BATON_RETURN_IF_ERROR(workspace.CheckRoom(ordered.size() * sizeof(KeyedItem)));
  std::stable_sort(ordered.begin(), ordered.end(), [](const KeyedItem& a, const KeyedItem& b) {
    if (a.key.text() != nullptr) return a.key.text()->bytes() < b.key.text()->bytes();
    if (a.key.IsInteger() && b.key.IsInteger()) return a.key.Integer() < b.key.Integer();
    return a.key.Number() < b.key.Number();
  });
  return absl::OkStatus();
}

absl::StatusOr<Value> ListOf(Workspace& workspace, const std::vector<KeyedItem>& ordered,
                             ListTraits traits) {
  ListBuilder items(workspace, traits);
  for (const KeyedItem& each : ordered) BATON_RETURN_IF_ERROR(items.Add(each.item));
  return items.Finish();
}

absl::StatusOr<Value> Sort(Workspace& workspace, const Value& subject, Arguments arguments) {
  BATON_ASSIGN_OR_RETURN(const List* list, Iterate(workspace, subject));
  BATON_ASSIGN_OR_RETURN(std::vector<KeyedItem> ordered,
                         KeysOf(workspace, list->items, arguments[1], arguments[2]));
  // Python keeps the order of equal items even if it sorts downwards.
  const bool reverse = arguments[0] != nullptr && IsTrue(*arguments[0]);
  if (reverse) std::reverse(ordered.begin(), ordered.end());
  BATON_RETURN_IF_ERROR(SortByKeys(workspace, ordered));
  if (reverse) std::reverse(ordered.begin(), ordered.end());
  return ListOf(workspace, ordered, {.trusted_size = list->trusted_size});
}

absl::StatusOr<Value> DictSort(Workspace& workspace, const Value& subject, Arguments arguments) {
  if (subject.dict() == nullptr) {
    return absl::InvalidArgumentError(absl::StrCat("a ", Describe(subject), " has no items"));
  }
  BATON_ASSIGN_OR_RETURN(const List* keys, Iterate(workspace, subject));
  BATON_ASSIGN_OR_RETURN(std::vector<KeyedItem> ordered,
                         KeysOf(workspace, keys->items, arguments[0], nullptr));
  BATON_ASSIGN_OR_RETURN(const Value pairs, ItemsOf(workspace, *subject.dict(), false));
  for (size_t i = 0; i < ordered.size(); ++i) {
    BATON_RETURN_IF_ERROR(workspace.StepByte());
    ordered[i].item = pairs.list()->items[i];
  }
  BATON_RETURN_IF_ERROR(SortByKeys(workspace, ordered));
  return ListOf(workspace, ordered, {.trusted_size = keys->trusted_size});
}

// The filters min and max.
template <int wanted>
absl::StatusOr<Value> Extreme(Workspace& workspace, const Value& subject, Arguments arguments) {
  BATON_ASSIGN_OR_RETURN(const List* list, Iterate(workspace, subject));
  BATON_ASSIGN_OR_RETURN(const std::vector<KeyedItem> ordered,
                         KeysOf(workspace, list->items, arguments[0], arguments[1]));
  if (ordered.empty()) return Value{Undefined{"item of an empty list"}};
  const KeyedItem* best = &ordered.front();
  for (const KeyedItem& each : ordered) {
    BATON_RETURN_IF_ERROR(workspace.Step());
    BATON_ASSIGN_OR_RETURN(const int order, Compare(workspace, each.key, best->key));
    if (order == wanted) best = &each;
  }
  Value item = best->item;
  item.trusted = item.trusted && list->trusted;
  return item;
}

absl::StatusOr<Value> Unique(Workspace& workspace, const Value& subject, Arguments arguments) {
  BATON_ASSIGN_OR_RETURN(const List* list, Iterate(workspace, subject));
  BATON_ASSIGN_OR_RETURN(const std::vector<KeyedItem> ordered,
                         KeysOf(workspace, list->items, arguments[0], arguments[1]));
  ListBuilder kept(workspace, {.generator = true, .trusted_size = list->trusted});
  std::vector<const KeyedItem*> seen;
  BATON_RETURN_IF_ERROR(workspace.Take(ordered.size() * sizeof(KeyedItem*)));
  for (const KeyedItem& each : ordered) {
    bool is_new = true;
    for (const KeyedItem* earlier : seen) {
      BATON_ASSIGN_OR_RETURN(const bool equal, Equals(workspace, earlier->key, each.key));
      is_new = !equal;
      if (equal) break;
    }
    if (!is_new) continue;
    seen.push_back(&each);
    BATON_RETURN_IF_ERROR(kept.Add(each.item));
  }
  return kept.Finish();
}

}  // namespace

absl::Span<const Builtin> OrderFilters() {
  static const std::vector<Builtin>& filters = *new std::vector<Builtin>{
      {"sort", 0, {"reverse", "case_sensitive", "attribute"}, Sort},
      {"dictsort", 0, {"case_sensitive"}, DictSort},
      {"min", 0, {"case_sensitive", "attribute"}, Extreme<-1>},
      {"max", 0, {"case_sensitive", "attribute"}, Extreme<1>},
      {"unique", 0, {"case_sensitive", "attribute"}, Unique},
  };
  return filters;
}

}  // namespace baton::jinja
