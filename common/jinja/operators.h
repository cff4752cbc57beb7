// What the operators, subscripts and slices of an expression compute: Python's rules.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/jinja/ast.h"
#include "common/jinja/value.h"

namespace baton::jinja {

// REQUIRES: `op` takes two operands. `and` and `or` are no operators here: they may skip their
// second operand.
absl::StatusOr<Value> ApplyBinary(Workspace& workspace, Operator op, const Value& left,
                                  const Value& right);
// REQUIRES: `op` is kNot, kNegate or kPlus.
absl::StatusOr<Value> ApplyUnary(Operator op, const Value& operand);
// value[index]; undefined when there is none, an error on an undefined value.
absl::StatusOr<Value> Subscript(Workspace& workspace, const Value& value, const Value& index);
// value[start:stop:step] of a list or a string; null: not given.
absl::StatusOr<Value> Slice(Workspace& workspace, const Value& value, const Value* start,
                            const Value* stop, const Value* step);

}  // namespace baton::jinja
