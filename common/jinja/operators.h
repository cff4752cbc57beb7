// The operators, subscripts and slices of expressions, which follow Python's rules.
#pragma once

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/jinja/ast.h"
#include "common/jinja/workspace.h"

namespace baton::jinja {

// REQUIRES: `op` takes two operands. `and` and `or` are expressions of their own, since they may
// skip their second operand.
absl::StatusOr<Value> ApplyBinary(Workspace& workspace, Operator op, const Value& left,
                                  const Value& right);
// REQUIRES: `op` is kNot, kNegate or kPlus.
absl::StatusOr<Value> ApplyUnary(Operator op, const Value& operand);
// Returns value[index]: undefined if there is no such item, an error if `value` is undefined.
absl::StatusOr<Value> Subscript(Workspace& workspace, const Value& value, const Value& index);
// Returns value[start:stop:step] of a list or a string. A bound that is not given is null.
absl::StatusOr<Value> Slice(Workspace& workspace, const Value& value, const Value* start,
                            const Value* stop, const Value* step);

}  // namespace baton::jinja
