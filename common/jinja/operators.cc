#include "common/jinja/operators.h"

#include <cmath>
#include <cstdint>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace baton::jinja {
namespace {

absl::string_view Symbol(Operator op) {
  switch (op) {
    case Operator::kAdd:
      return "+";
    case Operator::kSubtract:
      return "-";
    case Operator::kMultiply:
      return "*";
    case Operator::kDivide:
      return "/";
    case Operator::kFloorDivide:
      return "//";
    case Operator::kModulo:
      return "%";
    default:
      return "~";
  }
}

absl::Status Unsupported(Operator op, const Value& left, const Value& right) {
  return absl::InvalidArgumentError(
      absl::StrCat("cannot compute ", Describe(left), " ", Symbol(op), " ", Describe(right)));
}

// Divides and rounds down, as Python does. REQUIRES: b is neither 0 nor -1.
int64_t FloorDivide(int64_t a, int64_t b) {
  const int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

absl::StatusOr<Value> IntegerArithmetic(Operator op, int64_t a, int64_t b, bool trusted) {
  int64_t result = 0;
  bool overflow = false;
  const bool divides = op == Operator::kFloorDivide || op == Operator::kModulo;
  if (divides && b == 0) return absl::InvalidArgumentError("division by zero");
  switch (op) {
    case Operator::kAdd:
      overflow = __builtin_add_overflow(a, b, &result);
      break;
    case Operator::kSubtract:
      overflow = __builtin_sub_overflow(a, b, &result);
      break;
    case Operator::kMultiply:
      overflow = __builtin_mul_overflow(a, b, &result);
      break;
    case Operator::kFloorDivide:
      if (b == -1) {
        overflow = __builtin_sub_overflow(int64_t{0}, a, &result);
      } else {
        result = FloorDivide(a, b);
      }
      break;
    default:
      result = b == -1 ? 0 : a - FloorDivide(a, b) * b;
  }
  if (overflow) return absl::InvalidArgumentError("an integer does not fit into 64 bits");
  return Value{result, trusted};
}

// The quotient rounded down and the rest with the divisor's sign, as Python's float divmod() has
// them: the quotient is computed from the rest, since a / b may round up to the next integer.
// REQUIRES: b is not 0.
struct FloatDivision {
  double quotient;
  double rest;
};

FloatDivision DivideFloats(double a, double b) {
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest == 0) {
    rest = std::copysign(0.0, b);
  } else if ((rest < 0) != (b < 0)) {
    rest += b;
    quotient -= 1;
  }
  return {.quotient = quotient == 0 ? std::copysign(0.0, a / b) : std::round(quotient),
          .rest = rest};
}

absl::StatusOr<Value> FloatArithmetic(Operator op, double a, double b, bool trusted) {
  const bool divides =
      op == Operator::kDivide || op == Operator::kFloorDivide || op == Operator::kModulo;
  if (divides && b == 0) return absl::InvalidArgumentError("division by zero");
  switch (op) {
    case Operator::kAdd:
      return Value{a + b, trusted};
    case Operator::kSubtract:
      return Value{a - b, trusted};
    case Operator::kMultiply:
      return Value{a * b, trusted};
    case Operator::kDivide:
      return Value{a / b, trusted};
    case Operator::kFloorDivide:
      return Value{DivideFloats(a, b).quotient, trusted};
    default:
      return Value{DivideFloats(a, b).rest, trusted};
  }
}

absl::StatusOr<Value> Arithmetic(Operator op, const Value& left, const Value& right) {
  const bool trusted = left.trusted && right.trusted;
  if (left.IsInteger() && right.IsInteger() && op != Operator::kDivide) {
    return IntegerArithmetic(op, left.Integer(), right.Integer(), trusted);
  }
  return FloatArithmetic(op, left.Number(), right.Number(), trusted);
}

absl::StatusOr<Value> Concatenate(Workspace& workspace, const Value& left, const Value& right) {
  BATON_ASSIGN_OR_RETURN(const Text* first, ToText(workspace, left));
  BATON_ASSIGN_OR_RETURN(const Text* second, ToText(workspace, right));
  TextBuilder builder(workspace);
  BATON_RETURN_IF_ERROR(builder.Append(*first));
  BATON_RETURN_IF_ERROR(builder.Append(*second));
  return builder.Finish();
}

absl::StatusOr<Value> ConcatenateLists(Workspace& workspace, const List& left, const List& right) {
  if (left.generator || right.generator) {
    return absl::InvalidArgumentError(
        "a generator cannot be concatenated; convert it with the filter list first");
  }
  ListBuilder items(workspace, {.trusted_size = left.trusted_size && right.trusted_size});
  BATON_RETURN_IF_ERROR(items.AddAll(left.items));
  BATON_RETURN_IF_ERROR(items.AddAll(right.items));
  return items.Finish();
}

absl::StatusOr<Value> Repeat(Workspace& workspace, const Value& value, const Value& count) {
  const size_t times = count.Integer() > 0 ? static_cast<size_t>(count.Integer()) : 0;
  if (const List* list = value.list()) {
    ListBuilder items(workspace, {.trusted_size = list->trusted_size && count.trusted});
    for (size_t i = 0; i < times; ++i) BATON_RETURN_IF_ERROR(items.AddAll(list->items));
    return items.Finish();
  }
  BATON_ASSIGN_OR_RETURN(const Text* text, ToText(workspace, value));
  TextBuilder builder(workspace);
  for (size_t i = 0; i < times; ++i) {
    if (count.trusted) {
      BATON_RETURN_IF_ERROR(builder.Append(*text));
    } else {
      BATON_RETURN_IF_ERROR(builder.Append(text->bytes(), false));
    }
  }
  return builder.Finish();
}

bool Repeats(const Value& value, const Value& count) {
  const bool whole =
      value.text() != nullptr || (value.list() != nullptr && !value.list()->generator);
  return whole && count.IsInteger();
}

absl::StatusOr<Value> Compute(Workspace& workspace, Operator op, const Value& left,
                              const Value& right) {
  if (left.IsNumber() && right.IsNumber()) return Arithmetic(op, left, right);
  if (op == Operator::kAdd && left.text() != nullptr && right.text() != nullptr) {
    return Concatenate(workspace, left, right);
  }
  if (op == Operator::kAdd && left.list() != nullptr && right.list() != nullptr) {
    return ConcatenateLists(workspace, *left.list(), *right.list());
  }
  if (op == Operator::kMultiply && Repeats(left, right)) return Repeat(workspace, left, right);
  if (op == Operator::kMultiply && Repeats(right, left)) return Repeat(workspace, right, left);
  return Unsupported(op, left, right);
}

absl::StatusOr<bool> Judge(Workspace& workspace, Operator op, const Value& left,
                           const Value& right) {
  if (op == Operator::kIn) return Contains(workspace, right, left);
  if (op == Operator::kNotIn) {
    BATON_ASSIGN_OR_RETURN(const bool found, Contains(workspace, right, left));
    return !found;
  }
  if (op == Operator::kEqual || op == Operator::kNotEqual) {
    BATON_ASSIGN_OR_RETURN(const bool equal, Equals(workspace, left, right));
    return equal == (op == Operator::kEqual);
  }
  BATON_ASSIGN_OR_RETURN(const int order, Compare(workspace, left, right));
  switch (op) {
    case Operator::kLess:
      return order < 0;
    case Operator::kLessEqual:
      return order <= 0;
    case Operator::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

// The bounds of a slice, limited to `size` items as in Python.
struct Bounds {
  int64_t start;
  int64_t stop;
  int64_t step;
};

absl::StatusOr<int64_t> Bound(const Value* value, int64_t size, bool backwards, int64_t absent) {
  if (value == nullptr || value->Is<None>()) return absent;
  if (!value->IsInteger()) {
    return absl::InvalidArgumentError(
        absl::StrCat("a slice bound must be an integer, not a ", Describe(*value)));
  }
  int64_t bound = value->Integer();
  if (bound < 0) bound += size;
  const int64_t lowest = backwards ? -1 : 0;
  const int64_t highest = backwards ? size - 1 : size;
  return bound < lowest ? lowest : bound > highest ? highest : bound;
}

absl::StatusOr<Bounds> SliceBounds(int64_t size, const Value* start, const Value* stop,
                                   const Value* step) {
  Bounds bounds{.start = 0, .stop = size, .step = 1};
  if (step != nullptr && !step->Is<None>()) {
    if (!step->IsInteger() || step->Integer() == 0) {
      return absl::InvalidArgumentError("a slice step must be an integer other than 0");
    }
    // A step beyond the size takes one item, as this one does, which cannot overflow.
    bounds.step = step->Integer() > size    ? size + 1
                  : step->Integer() < -size ? -size - 1
                                            : step->Integer();
  }
  const bool backwards = bounds.step < 0;
  BATON_ASSIGN_OR_RETURN(bounds.start, Bound(start, size, backwards, backwards ? size - 1 : 0));
  BATON_ASSIGN_OR_RETURN(bounds.stop, Bound(stop, size, backwards, backwards ? -1 : size));
  return bounds;
}

// The offset of the character with that index; bytes.size() beyond the last, 0 before the first.
absl::StatusOr<size_t> CharacterOffset(Workspace& workspace, absl::string_view bytes,
                                       int64_t index) {
  size_t at = 0;
  for (int64_t i = 0; i < index && at < bytes.size(); ++i) {
    BATON_RETURN_IF_ERROR(workspace.StepByte());
    at += CharacterSize(bytes, at);
  }
  return at;
}

absl::StatusOr<Value> SliceText(Workspace& workspace, const Text& text, const Value* start,
                                const Value* stop, const Value* step) {
  BATON_RETURN_IF_ERROR(workspace.StepBytes(text.size()));
  const absl::string_view bytes = text.bytes();
  const auto size = static_cast<int64_t>(CharacterCount(bytes));
  BATON_ASSIGN_OR_RETURN(const Bounds bounds, SliceBounds(size, start, stop, step));
  const bool backwards = bounds.step < 0;
  BATON_ASSIGN_OR_RETURN(size_t begin, CharacterOffset(workspace, bytes, bounds.start));
  TextBuilder builder(workspace);
  if (bounds.step == 1) {
    BATON_ASSIGN_OR_RETURN(const size_t end, CharacterOffset(workspace, bytes, bounds.stop));
    BATON_RETURN_IF_ERROR(builder.AppendSlice(text, begin, end));
    return builder.Finish();
  }
  int64_t next = bounds.start;
  for (int64_t i = next; backwards ? i > bounds.stop : i < bounds.stop; i += backwards ? -1 : 1) {
    BATON_RETURN_IF_ERROR(workspace.StepByte());
    const size_t end = begin + CharacterSize(bytes, begin);
    if (i == next) {
      BATON_RETURN_IF_ERROR(builder.AppendSlice(text, begin, end));
      next += bounds.step;
    }
    if (!backwards) {
      begin = end;
    } else if (begin > 0) {
      begin -= LastCharacterSize(bytes, 0, begin);
    }
  }
  return builder.Finish();
}

bool IsUntrusted(const Value* value) { return value != nullptr && !value->trusted; }

}  // namespace

absl::StatusOr<Value> ApplyBinary(Workspace& workspace, Operator op, const Value& left,
                                  const Value& right) {
  switch (op) {
    case Operator::kAdd:
    case Operator::kSubtract:
    case Operator::kMultiply:
    case Operator::kDivide:
    case Operator::kFloorDivide:
    case Operator::kModulo:
      return Compute(workspace, op, left, right);
    case Operator::kConcatenate:
      return Concatenate(workspace, left, right);
    default: {
      BATON_ASSIGN_OR_RETURN(const bool verdict, Judge(workspace, op, left, right));
      return Value{verdict, TrustOf(left) && TrustOf(right)};
    }
  }
}

absl::StatusOr<Value> ApplyUnary(Operator op, const Value& operand) {
  if (op == Operator::kNot) return Value{!IsTrue(operand), TrustOf(operand)};
  const bool negate = op == Operator::kNegate;
  if (operand.IsInteger()) {
    return IntegerArithmetic(negate ? Operator::kSubtract : Operator::kAdd, 0, operand.Integer(),
                             operand.trusted);
  }
  if (operand.IsNumber()) {
    return Value{negate ? -operand.Number() : operand.Number(), operand.trusted};
  }
  return absl::InvalidArgumentError(
      absl::StrCat("a unary '+' or '-' cannot be applied to a ", Describe(operand)));
}

absl::StatusOr<Value> Subscript(Workspace& workspace, const Value& value, const Value& index) {
  if (index.text() != nullptr) return Attribute(workspace, value, index.text()->bytes());
  if (const Dict* dict = value.dict()) {
    for (const auto& [key, item] : dict->items) {
      BATON_ASSIGN_OR_RETURN(const bool equal, Equals(workspace, key, index));
      if (equal) return item;
    }
    return Value{Undefined{"dict entry"}};
  }
  if (value.Is<Undefined>()) {
    return absl::InvalidArgumentError(absl::StrCat("[] cannot be applied to ", Describe(value)));
  }
  if (!index.IsInteger()) return Value{Undefined{"list item"}};
  const bool is_text = value.text() != nullptr;
  if (!is_text && (value.list() == nullptr || value.list()->generator)) {
    return Value{Undefined{"list item"}};
  }
  int64_t at = index.Integer();
  if (is_text) {
    const absl::string_view bytes = value.text()->bytes();
    if (at < 0) {
      BATON_RETURN_IF_ERROR(workspace.StepBytes(bytes.size()));
      at += static_cast<int64_t>(CharacterCount(bytes));
      if (at < 0) return Value{Undefined{"character"}};
    }
    BATON_ASSIGN_OR_RETURN(const size_t begin, CharacterOffset(workspace, bytes, at));
    if (begin == bytes.size()) return Value{Undefined{"character"}};
    Text character = value.text()->Slice(begin, begin + CharacterSize(bytes, begin));
    if (!index.trusted) character.Distrust();
    return workspace.NewText(std::move(character));
  }
  const std::vector<Value>& items = value.list()->items;
  if (at < 0) at += static_cast<int64_t>(items.size());
  if (at < 0 || at >= static_cast<int64_t>(items.size())) return Value{Undefined{"list item"}};
  return items[static_cast<size_t>(at)];
}

absl::StatusOr<Value> Slice(Workspace& workspace, const Value& value, const Value* start,
                            const Value* stop, const Value* step) {
  if (value.text() != nullptr) {
    BATON_ASSIGN_OR_RETURN(const Value slice,
                           SliceText(workspace, *value.text(), start, stop, step));
    if (!IsUntrusted(start) && !IsUntrusted(stop) && !IsUntrusted(step)) return slice;
    return workspace.NewText(slice.text()->bytes(), false);
  }
  const List* list = value.list();
  if (list == nullptr || list->generator) {
    return absl::InvalidArgumentError(
        absl::StrCat("a slice cannot be taken of a ", Describe(value)));
  }
  const auto size = static_cast<int64_t>(list->items.size());
  BATON_ASSIGN_OR_RETURN(const Bounds bounds, SliceBounds(size, start, stop, step));
  const bool trusted_bounds = !IsUntrusted(start) && !IsUntrusted(stop) && !IsUntrusted(step);
  ListBuilder items(workspace, {.trusted_size = list->trusted_size && trusted_bounds});
  for (int64_t i = bounds.start; bounds.step > 0 ? i < bounds.stop : i > bounds.stop;
       i += bounds.step) {
    BATON_RETURN_IF_ERROR(items.Add(list->items[static_cast<size_t>(i)]));
  }
  return items.Finish();
}

}  // namespace baton::jinja
