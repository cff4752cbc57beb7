// The tests (`x is defined`) and the comparisons behind them.
#include <cmath>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/jinja/builtins.h"

namespace baton::jinja {
namespace {

template <bool (*holds)(const Value&)>
absl::StatusOr<Value> Is(Workspace&, const Value& subject, Arguments) {
  return Value{holds(subject), subject.trusted};
}

bool IsDefined(const Value& value) { return !value.Is<Undefined>(); }
bool IsUndefined(const Value& value) { return value.Is<Undefined>(); }
bool IsNone(const Value& value) { return value.Is<None>(); }
bool IsString(const Value& value) { return value.text() != nullptr; }
bool IsMapping(const Value& value) { return value.dict() != nullptr; }
bool IsNumber(const Value& value) { return value.IsNumber(); }
bool IsIntegerNumber(const Value& value) { return value.Is<int64_t>(); }
bool IsFloat(const Value& value) { return value.Is<double>(); }
bool IsBoolean(const Value& value) { return value.Is<bool>(); }
bool IsTheTrue(const Value& value) { return value.Is<bool>() && IsTrue(value); }
bool IsTheFalse(const Value& value) { return value.Is<bool>() && !IsTrue(value); }
bool IsIterable(const Value& value) {
  return IsString(value) || IsMapping(value) || value.list() != nullptr || IsUndefined(value);
}
bool IsSequence(const Value& value) {
  return IsIterable(value) && !(value.list() != nullptr && value.list()->generator);
}
// In Jinja an undefined value counts as callable too.
bool IsCallable(const Value& value) {
  return IsUndefined(value) || value.Is<NativeFunction>() || value.Is<const Statement*>();
}

// Whether `by` divides the subject, or does not if `wanted` is false. REQUIRES: by.IsInteger().
absl::StatusOr<Value> Divides(const Value& subject, const Value& by, bool wanted) {
  const int64_t divisor = by.Integer();
  if (!subject.IsInteger() || divisor == 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a ", Describe(subject), " cannot be divided by ", divisor));
  }
  // -1 divides every integer, but the smallest one % -1 overflows.
  const bool divides = divisor == -1 || subject.Integer() % divisor == 0;
  return Value{divides == wanted, subject.trusted && by.trusted};
}

absl::StatusOr<Value> Odd(Workspace&, const Value& subject, Arguments) {
  return Divides(subject, Value{int64_t{2}}, false);
}
absl::StatusOr<Value> Even(Workspace&, const Value& subject, Arguments) {
  return Divides(subject, Value{int64_t{2}}, true);
}
absl::StatusOr<Value> DivisibleBy(Workspace&, const Value& subject, Arguments arguments) {
  if (!arguments[0]->IsInteger()) {
    return absl::InvalidArgumentError("'divisibleby' takes an integer");
  }
  return Divides(subject, *arguments[0], true);
}

template <bool wanted>
absl::StatusOr<Value> Equal(Workspace& workspace, const Value& subject, Arguments arguments) {
  BATON_ASSIGN_OR_RETURN(const bool equal, Equals(workspace, subject, *arguments[0]));
  return Value{equal == wanted, TrustOf(subject) && TrustOf(*arguments[0])};
}

template <bool (*holds)(int)>
absl::StatusOr<Value> Ordered(Workspace& workspace, const Value& subject, Arguments arguments) {
  BATON_ASSIGN_OR_RETURN(const int order, Compare(workspace, subject, *arguments[0]));
  return Value{holds(order), TrustOf(subject) && TrustOf(*arguments[0])};
}
bool Less(int order) { return order < 0; }
bool LessEqual(int order) { return order <= 0; }
bool Greater(int order) { return order > 0; }
bool GreaterEqual(int order) { return order >= 0; }

absl::StatusOr<Value> In(Workspace& workspace, const Value& subject, Arguments arguments) {
  BATON_ASSIGN_OR_RETURN(const bool found, Contains(workspace, *arguments[0], subject));
  return Value{found, TrustOf(subject) && TrustOf(*arguments[0])};
}

}  // namespace

absl::StatusOr<bool> Contains(Workspace& workspace, const Value& container, const Value& item) {
  if (container.text() != nullptr) {
    if (item.text() == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat(
          "'in' can search a string only for another string, not for a ", Describe(item)));
    }
    BATON_ASSIGN_OR_RETURN(const Text* text, ToText(workspace, container));
    BATON_ASSIGN_OR_RETURN(const Text* needle, ToText(workspace, item));
    BATON_ASSIGN_OR_RETURN(const size_t found,
                           FindBytes(workspace, text->bytes(), needle->bytes(), 0));
    return found != absl::string_view::npos;
  }
  BATON_ASSIGN_OR_RETURN(const List* list, Iterate(workspace, container));
  for (const Value& candidate : list->items) {
    BATON_ASSIGN_OR_RETURN(const bool equal, Equals(workspace, candidate, item));
    if (equal) return true;
  }
  return false;
}

absl::StatusOr<int> Compare(Workspace& workspace, const Value& a, const Value& b) {
  if (a.IsInteger() && b.IsInteger()) {
    return a.Integer() < b.Integer() ? -1 : a.Integer() > b.Integer() ? 1 : 0;
  }
  const bool unordered =
      a.IsNumber() && b.IsNumber() && (std::isnan(a.Number()) || std::isnan(b.Number()));
  if (a.IsNumber() && b.IsNumber() && !unordered) {
    return a.Number() < b.Number() ? -1 : a.Number() > b.Number() ? 1 : 0;
  }
  if (a.text() == nullptr || b.text() == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot order a ", Describe(a), " and a ", Describe(b)));
  }
  BATON_ASSIGN_OR_RETURN(const Text* left, ToText(workspace, a));
  const int order = left->bytes().compare(b.text()->bytes());
  return order < 0 ? -1 : order > 0 ? 1 : 0;
}

absl::Span<const Builtin> Tests() {
  static const std::vector<Builtin>& tests = *new std::vector<Builtin>{
      {"defined", 0, {}, Is<IsDefined>},
      {"undefined", 0, {}, Is<IsUndefined>},
      {"none", 0, {}, Is<IsNone>},
      {"string", 0, {}, Is<IsString>},
      {"mapping", 0, {}, Is<IsMapping>},
      {"number", 0, {}, Is<IsNumber>},
      {"integer", 0, {}, Is<IsIntegerNumber>},
      {"float", 0, {}, Is<IsFloat>},
      {"boolean", 0, {}, Is<IsBoolean>},
      {"true", 0, {}, Is<IsTheTrue>},
      {"false", 0, {}, Is<IsTheFalse>},
      {"iterable", 0, {}, Is<IsIterable>},
      {"sequence", 0, {}, Is<IsSequence>},
      {"callable", 0, {}, Is<IsCallable>},
      {"odd", 0, {}, Odd},
      {"even", 0, {}, Even},
      {"divisibleby", 1, {"num"}, DivisibleBy},
      {"equalto", 1, {"other"}, Equal<true>},
      {"eq", 1, {"other"}, Equal<true>},
      {"ne", 1, {"other"}, Equal<false>},
      {"lt", 1, {"other"}, Ordered<Less>},
      {"le", 1, {"other"}, Ordered<LessEqual>},
      {"gt", 1, {"other"}, Ordered<Greater>},
      {"ge", 1, {"other"}, Ordered<GreaterEqual>},
      {"in", 1, {"seq"}, In},
  };
  return tests;
}

}  // namespace baton::jinja
