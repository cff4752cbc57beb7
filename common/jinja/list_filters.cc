// The filters of lists and dicts, and the look-up of filters by name.
#include <algorithm>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/jinja/builtins.h"

namespace baton::jinja {
namespace {

absl::StatusOr<Value> Length(Workspace& workspace, const Value& subject, Arguments) {
  if (subject.text() != nullptr) {
    BATON_ASSIGN_OR_RETURN(const Text* text, ToText(workspace, subject));
    return Value{static_cast<int64_t>(CharacterCount(text->bytes())), text->trusted()};
  }
  const List* list = subject.list();
  if (list != nullptr && !list->generator) {
    return Value{static_cast<int64_t>(list->items.size()), list->trusted_size};
  }
  if (const Dict* dict = subject.dict()) {
    return Value{static_cast<int64_t>(dict->items.size()), dict->trusted_size};
  }
  if (subject.Is<Undefined>()) return Value{int64_t{0}};
  return absl::InvalidArgumentError(absl::StrCat("a ", Describe(subject), " has no length"));
}

absl::StatusOr<Value> First(Workspace& workspace, const Value& subject, Arguments) {
  BATON_ASSIGN_OR_RETURN(const List* list, Iterate(workspace, subject));
  return list->items.empty() ? Value{Undefined{"first item"}} : list->items.front();
}

absl::StatusOr<Value> Last(Workspace& workspace, const Value& subject, Arguments) {
  if (subject.list() != nullptr && subject.list()->generator) {
    return absl::InvalidArgumentError(
        "a generator has no last item; convert it with the filter list first");
  }
  BATON_ASSIGN_OR_RETURN(const List* list, Iterate(workspace, subject));
  return list->items.empty() ? Value{Undefined{"last item"}} : list->items.back();
}

absl::StatusOr<Value> ToList(Workspace& workspace, const Value& subject, Arguments) {
  BATON_ASSIGN_OR_RETURN(const List* list, Iterate(workspace, subject));
  if (!list->generator) return Value{list};
  ListBuilder items(workspace, {.trusted_size = list->trusted_size});
  BATON_RETURN_IF_ERROR(items.AddAll(list->items));
  return items.Finish();
}

absl::StatusOr<Value> Reverse(Workspace& workspace, const Value& subject, Arguments) {
  BATON_ASSIGN_OR_RETURN(const List* list, Iterate(workspace, subject));
  ListBuilder items(workspace, {.generator = true, .trusted_size = list->trusted_size});
  for (size_t i = list->items.size(); i > 0; --i) {
    BATON_RETURN_IF_ERROR(items.Add(list->items[i - 1]));
  }
  BATON_ASSIGN_OR_RETURN(const Value reversed, items.Finish());
  if (subject.text() == nullptr) return reversed;
  return JoinTexts(workspace, *reversed.list(), Text());
}

absl::StatusOr<Value> Items(Workspace& workspace, const Value& subject, Arguments) {
  if (subject.Is<Undefined>()) return workspace.NewList({}, {.generator = true});
  if (const Dict* dict = subject.dict()) return ItemsOf(workspace, *dict, true);
  return absl::InvalidArgumentError(absl::StrCat("a ", Describe(subject), " has no items"));
}

// A list of the attribute `name` of each item.
absl::StatusOr<const List*> Attributes(Workspace& workspace, const List& list, const Value& name,
                                       bool generator) {
  if (name.text() == nullptr) {
    return absl::InvalidArgumentError("an attribute's name must be a string");
  }
  ListBuilder values(workspace, {.generator = generator, .trusted_size = list.trusted_size});
  for (const Value& item : list.items) {
    BATON_ASSIGN_OR_RETURN(const Value value, Attribute(workspace, item, name.text()->bytes()));
    BATON_RETURN_IF_ERROR(values.Add(value));
  }
  BATON_ASSIGN_OR_RETURN(const Value result, values.Finish());
  return result.list();
}

absl::StatusOr<Value> Join(Workspace& workspace, const Value& subject, Arguments arguments) {
  BATON_ASSIGN_OR_RETURN(const List* list, Iterate(workspace, subject));
  if (arguments[1] != nullptr) {
    BATON_ASSIGN_OR_RETURN(list, Attributes(workspace, *list, *arguments[1], false));
  }
  if (arguments[0] == nullptr) return JoinTexts(workspace, *list, Text());
  BATON_ASSIGN_OR_RETURN(const Text* separator, ToText(workspace, *arguments[0]));
  return JoinTexts(workspace, *list, *separator);
}

absl::StatusOr<const Builtin*> Named(const Builtin* (*find)(absl::string_view), const Value& name) {
  const Builtin* found = name.text() != nullptr ? find(name.text()->bytes()) : nullptr;
  if (found == nullptr || found->required > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no filter or test for lists with the name ",
                     name.text() != nullptr ? Shortened(name.text()->bytes()) : Describe(name)));
  }
  return found;
}

// What map and the filters that select go over. As in Jinja, nothing that is false is asked for its
// items: there are none.
absl::StatusOr<const List*> ItemsIfTrue(Workspace& workspace, const Value& value) {
  if (IsTrue(value)) return Iterate(workspace, value);
  BATON_ASSIGN_OR_RETURN(const Value none, workspace.NewList({}, {.trusted_size = TrustOf(value)}));
  return none.list();
}

// The filter map(attribute='x') or map('filter').
absl::StatusOr<Value> Map(Workspace& workspace, const Value& subject, Arguments arguments) {
  BATON_ASSIGN_OR_RETURN(const List* list, ItemsIfTrue(workspace, subject));
  if (arguments[1] != nullptr) {
    BATON_ASSIGN_OR_RETURN(list, Attributes(workspace, *list, *arguments[1], true));
    return Value{list};
  }
  if (arguments[0] == nullptr) return absl::InvalidArgumentError("map() needs a filter");
  BATON_ASSIGN_OR_RETURN(const Builtin* filter, Named(FindFilter, *arguments[0]));
  if (filter->required > 0) {
    return absl::InvalidArgumentError("map() supports only filters without arguments");
  }
  const std::vector<const Value*> none(filter->parameters.size());
  ListBuilder values(workspace, {.generator = true, .trusted_size = list->trusted_size});
  for (const Value& item : list->items) {
    BATON_ASSIGN_OR_RETURN(const Value value, filter->run(workspace, item, none));
    BATON_RETURN_IF_ERROR(values.Add(value));
  }
  return values.Finish();
}

// Selects the items of `list` whose entry in `judged` passes the test, or fails it if `wanted` is
// false. Without a test name an entry passes if it is true.
absl::StatusOr<Value> Pick(Workspace& workspace, const List& list, const List& judged,
                           const Value* test_name, const Value* argument, bool wanted) {
  const Builtin* test = nullptr;
  if (test_name != nullptr) {
    BATON_ASSIGN_OR_RETURN(test, Named(FindTest, *test_name));
    if (test->required > 0 && argument == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("test '", test->name, "' needs an argument"));
    }
  }
  const std::vector<const Value*> arguments(test != nullptr ? test->parameters.size() : 0,
                                            argument);
  ListBuilder picked(workspace, {.generator = true, .trusted_size = list.trusted_size});
  for (size_t i = 0; i < list.items.size(); ++i) {
    BATON_RETURN_IF_ERROR(workspace.Step());
    Value verdict = judged.items[i];
    if (test != nullptr) {
      BATON_ASSIGN_OR_RETURN(verdict, test->run(workspace, judged.items[i], arguments));
    }
    if (!TrustOf(verdict)) picked.DistrustSize();
    if (IsTrue(verdict) == wanted) BATON_RETURN_IF_ERROR(picked.Add(list.items[i]));
  }
  return picked.Finish();
}

template <bool wanted>
absl::StatusOr<Value> Select(Workspace& workspace, const Value& subject, Arguments arguments) {
  BATON_ASSIGN_OR_RETURN(const List* list, ItemsIfTrue(workspace, subject));
  return Pick(workspace, *list, *list, arguments[0], arguments[1], wanted);
}

template <bool wanted>
absl::StatusOr<Value> SelectAttribute(Workspace& workspace, const Value& subject,
                                      Arguments arguments) {
  BATON_ASSIGN_OR_RETURN(const List* list, ItemsIfTrue(workspace, subject));
  BATON_ASSIGN_OR_RETURN(const List* judged, Attributes(workspace, *list, *arguments[0], false));
  return Pick(workspace, *list, *judged, arguments[1], arguments[2], wanted);
}

const Builtin* Find(absl::Span<const Builtin> table, absl::string_view name) {
  // No step: a table of ours.
  const auto found = std::find_if(table.begin(), table.end(),
                                  [&](const Builtin& builtin) { return builtin.name == name; });
  return found != table.end() ? &*found : nullptr;
}

}  // namespace

absl::StatusOr<Value> ItemsOf(Workspace& workspace, const Dict& dict, bool generator) {
  ListBuilder pairs(workspace, {.generator = generator, .trusted_size = dict.trusted_size});
  for (const auto& [key, value] : dict.items) {
    BATON_ASSIGN_OR_RETURN(const Value pair, workspace.NewList({key, value}));
    BATON_RETURN_IF_ERROR(pairs.Add(pair));
  }
  return pairs.Finish();
}

absl::Span<const Builtin> ListFilters() {
  static const std::vector<Builtin>& filters = *new std::vector<Builtin>{
      {"length", 0, {}, Length},
      {"count", 0, {}, Length},
      {"first", 0, {}, First},
      {"last", 0, {}, Last},
      {"list", 0, {}, ToList},
      {"reverse", 0, {}, Reverse},
      {"items", 0, {}, Items},
      {"join", 0, {"d", "attribute"}, Join},
      {"map", 0, {"filter", "attribute"}, Map},
      {"select", 0, {"test", "argument"}, Select<true>},
      {"reject", 0, {"test", "argument"}, Select<false>},
      {"selectattr", 1, {"attribute", "test", "argument"}, SelectAttribute<true>},
      {"rejectattr", 1, {"attribute", "test", "argument"}, SelectAttribute<false>},
  };
  return filters;
}

const Builtin* FindFilter(absl::string_view name) {
  const Builtin* filter = Find(TextFilters(), name);
  if (filter == nullptr) filter = Find(ListFilters(), name);
  return filter != nullptr ? filter : Find(OrderFilters(), name);
}

const Builtin* FindTest(absl::string_view name) { return Find(Tests(), name); }

const Builtin* FindMethod(absl::string_view name) { return Find(Methods(), name); }

}  // namespace baton::jinja
