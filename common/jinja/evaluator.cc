#include "common/jinja/evaluator.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"
#include "common/jinja/operators.h"

namespace baton::jinja {
namespace {

Value LoopAttribute(const Loop& loop, absl::string_view name) {
  const auto index = static_cast<int64_t>(loop.index);
  const std::vector<Value>& items = loop.items->items;
  const auto size = static_cast<int64_t>(items.size());
  const bool trusted = loop.items->trusted_size;
  if (name == "index") return Value{index + 1, trusted};
  if (name == "index0") return Value{index, trusted};
  if (name == "revindex") return Value{size - index, trusted};
  if (name == "revindex0") return Value{size - index - 1, trusted};
  if (name == "first") return Value{index == 0, trusted};
  if (name == "last") return Value{index == size - 1, trusted};
  if (name == "length") return Value{size, trusted};
  if (name == "previtem" && index > 0) return items[loop.index - 1];
  if (name == "nextitem" && index + 1 < size) return items[loop.index + 1];
  return Value{Undefined{"loop item"}};
}

}  // namespace

absl::Status DepthGuard::Check() const {
  if (depth_ <= kMaxEvaluationDepth) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("nested deeper than ", kMaxEvaluationDepth, " while running"));
}

absl::Status Scope::Set(absl::string_view name, const Value& value) {
  BATON_RETURN_IF_ERROR(workspace_.Step());
  const auto [at, is_new] = variables_.insert_or_assign(name, value);
  if (!is_new) return absl::OkStatus();
  // Twice what a full table holds for each variable, since it doubles while the old one lives.
  return held_.Take(4 * sizeof(*at));
}

absl::StatusOr<Value> Scope::LookUp(absl::string_view name) const {
  for (const Scope* at = this; at != nullptr; at = at->around_) {
    BATON_RETURN_IF_ERROR(workspace_.Step());
    const auto found = at->variables_.find(name);
    if (found != at->variables_.end()) return found->second;
  }
  return Value{Undefined{name}};
}

Scope& Scope::Outermost() {
  Scope* scope = this;
  // No step: at most kMaxEvaluationDepth rounds.
  while (scope->around_ != nullptr) scope = scope->around_;
  return *scope;
}

absl::Status AtLine(int line, const absl::Status& status) {
  if (status.ok() || absl::StartsWith(status.message(), "chat template line ")) return status;
  return absl::Status(status.code(),
                      absl::StrCat("chat template line ", line, ": ", status.message()));
}

absl::StatusOr<Value> Attribute(Workspace& workspace, const Value& value, absl::string_view name) {
  BATON_RETURN_IF_ERROR(workspace.Step());
  if (const Dict* dict = value.dict()) {
    BATON_ASSIGN_OR_RETURN(const Value* found, FindItem(workspace, *dict, name));
    return found != nullptr ? *found : Value{Undefined{name}};
  }
  if (value.Is<Namespace*>()) {
    for (const auto& [attribute, held] : std::get<Namespace*>(value.data)->attributes) {
      BATON_RETURN_IF_ERROR(workspace.StepByte());
      if (attribute == name) return held;
    }
  }
  if (value.Is<const Loop*>()) return LoopAttribute(*std::get<const Loop*>(value.data), name);
  if (value.Is<Undefined>()) {
    return absl::InvalidArgumentError(
        absl::StrCat("'", Shortened(name), "' of an ", Describe(value)));
  }
  return Value{Undefined{name}};
}

absl::StatusOr<Value> Evaluator::Evaluate(const Expression& expression, Scope& scope) {
  const DepthGuard guard(depth_);
  absl::Status status = guard.Check();
  if (status.ok()) status = workspace_.Step();
  if (!status.ok()) return AtLine(expression.line, status);
  absl::StatusOr<Value> value = Dispatch(expression, scope);
  if (!value.ok() && !raised_) return AtLine(expression.line, value.status());
  return value;
}

absl::StatusOr<Value> Evaluator::Dispatch(const Expression& expression, Scope& scope) {
  switch (expression.kind) {
    case ExpressionKind::kLiteral:
      return expression.literal;
    case ExpressionKind::kVariable:
      return scope.LookUp(expression.name);
    case ExpressionKind::kList:
      return MakeList(expression, scope);
    case ExpressionKind::kDict:
      return MakeDict(expression, scope);
    case ExpressionKind::kSlice:
      return EvaluateSlice(expression, scope);
    case ExpressionKind::kConditional:
      return Choose(expression, scope);
    case ExpressionKind::kBuiltin:
      return RunBuiltin(expression, scope);
    case ExpressionKind::kCall:
      return Call(expression, scope);
    default:
      break;
  }
  BATON_ASSIGN_OR_RETURN(const Value first, Evaluate(*expression.operands[0], scope));
  if (expression.kind == ExpressionKind::kAttribute) {
    return Attribute(workspace_, first, expression.name);
  }
  if (expression.kind == ExpressionKind::kUnary) return ApplyUnary(expression.op, first);
  if (expression.kind == ExpressionKind::kAnd && !IsTrue(first)) return first;
  if (expression.kind == ExpressionKind::kOr && IsTrue(first)) return first;
  BATON_ASSIGN_OR_RETURN(const Value second, Evaluate(*expression.operands[1], scope));
  if (expression.kind == ExpressionKind::kBinary) {
    return ApplyBinary(workspace_, expression.op, first, second);
  }
  if (expression.kind == ExpressionKind::kSubscript) return Subscript(workspace_, first, second);
  return second;
}

absl::StatusOr<Value> Evaluator::MakeList(const Expression& expression, Scope& scope) {
  ListBuilder items(workspace_);
  for (const auto& operand : expression.operands) {
    BATON_ASSIGN_OR_RETURN(const Value item, Evaluate(*operand, scope));
    BATON_RETURN_IF_ERROR(items.Add(item));
  }
  return items.Finish();
}

absl::StatusOr<Value> Evaluator::MakeDict(const Expression& expression, Scope& scope) {
  Held held(workspace_);
  BATON_RETURN_IF_ERROR(held.Take(expression.operands.size() * sizeof(Value)));
  std::vector<std::pair<Value, Value>> items;
  items.reserve(expression.operands.size() / 2);
  for (size_t i = 0; i + 1 < expression.operands.size(); i += 2) {
    BATON_ASSIGN_OR_RETURN(const Value key, Evaluate(*expression.operands[i], scope));
    BATON_ASSIGN_OR_RETURN(const Value value, Evaluate(*expression.operands[i + 1], scope));
    items.emplace_back(key, value);
  }
  return workspace_.NewDict(items);
}

absl::StatusOr<Value> Evaluator::EvaluateSlice(const Expression& expression, Scope& scope) {
  Value parts[4];
  const Value* given[4] = {};
  for (size_t i = 0; i < 4; ++i) {
    if (expression.operands[i] == nullptr) continue;
    BATON_ASSIGN_OR_RETURN(parts[i], Evaluate(*expression.operands[i], scope));
    given[i] = &parts[i];
  }
  return Slice(workspace_, parts[0], given[1], given[2], given[3]);
}

absl::StatusOr<Value> Evaluator::RunBuiltin(const Expression& expression, Scope& scope) {
  const size_t count = expression.operands.size();
  std::vector<Value> values(count);
  std::vector<const Value*> given(count);
  for (size_t i = 0; i < count; ++i) {
    if (expression.operands[i] == nullptr) continue;
    BATON_ASSIGN_OR_RETURN(values[i], Evaluate(*expression.operands[i], scope));
    given[i] = &values[i];
  }
  return expression.builtin->run(workspace_, values[0], Arguments(given).subspan(1));
}

absl::StatusOr<Value> Evaluator::Choose(const Expression& expression, Scope& scope) {
  BATON_ASSIGN_OR_RETURN(const Value condition, Evaluate(*expression.operands[1], scope));
  if (IsTrue(condition)) return Evaluate(*expression.operands[0], scope);
  if (expression.operands[2] == nullptr) return Value{Undefined{"inline if without else"}};
  return Evaluate(*expression.operands[2], scope);
}

absl::StatusOr<Value> Evaluator::Call(const Expression& expression, Scope& scope) {
  BATON_ASSIGN_OR_RETURN(const Value callee, scope.LookUp(expression.name));
  if (callee.Is<const Statement*>()) {
    return CallMacro(*std::get<const Statement*>(callee.data), expression, scope);
  }
  if (callee.Is<NativeFunction>()) {
    return CallNative(std::get<NativeFunction>(callee.data), expression, scope);
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", expression.name, "' is not a function but a ", Describe(callee)));
}

absl::StatusOr<Value> Evaluator::CallMacro(const Statement& macro, const Expression& call,
                                           Scope& scope) {
  // A macro can read its parameters and the template's outermost variables.
  Scope inner(workspace_, &scope.Outermost());
  if (call.operands.size() > macro.parameters.size()) {
    return absl::InvalidArgumentError(
        absl::StrCat("macro '", call.name, "' takes ", macro.parameters.size(), " arguments"));
  }
  for (size_t i = 0; i < call.operands.size(); ++i) {
    BATON_ASSIGN_OR_RETURN(const Value value, Evaluate(*call.operands[i], scope));
    BATON_RETURN_IF_ERROR(inner.Set(macro.parameters[i].first, value));
  }
  for (const auto& [name, expression] : call.named) {
    BATON_RETURN_IF_ERROR(workspace_.Step(macro.parameters.size()));
    // No step: counted above.
    const auto known =
        std::find_if(macro.parameters.begin(), macro.parameters.end(),
                     [&name = name](const auto& parameter) { return parameter.first == name; });
    if (known == macro.parameters.end() || inner.Has(name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("macro '", call.name, "' has no parameter '", name, "'"));
    }
    BATON_ASSIGN_OR_RETURN(const Value value, Evaluate(*expression, scope));
    BATON_RETURN_IF_ERROR(inner.Set(name, value));
  }
  for (const auto& [name, fallback] : macro.parameters) {
    BATON_RETURN_IF_ERROR(workspace_.Step());
    if (inner.Has(name)) continue;
    Value value{Undefined{name}};
    if (fallback != nullptr) {
      BATON_ASSIGN_OR_RETURN(value, Evaluate(*fallback, inner));
    }
    BATON_RETURN_IF_ERROR(inner.Set(name, value));
  }
  return run_macro_(macro, inner);
}

absl::StatusOr<Value> Evaluator::CallNative(NativeFunction function, const Expression& call,
                                            Scope& scope) {
  Held held(workspace_);
  BATON_RETURN_IF_ERROR(held.Take(4 * sizeof(Value) * (call.operands.size() + call.named.size())));
  std::vector<Value> arguments;
  for (const auto& operand : call.operands) {
    BATON_ASSIGN_OR_RETURN(const Value argument, Evaluate(*operand, scope));
    arguments.push_back(argument);
  }
  std::vector<std::pair<absl::string_view, Value>> named;
  for (const auto& [name, expression] : call.named) {
    BATON_ASSIGN_OR_RETURN(const Value argument, Evaluate(*expression, scope));
    named.emplace_back(name, argument);
  }
  if (function == NativeFunction::kNamespace) {
    if (!arguments.empty()) {
      return absl::InvalidArgumentError("namespace() takes named arguments only");
    }
    return workspace_.NewNamespace(std::move(named));
  }
  if (!named.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(call.name, "() takes no named arguments"));
  }
  if (function == NativeFunction::kRange) return Range(arguments);
  if (arguments.size() != 1) {
    return absl::InvalidArgumentError(absl::StrCat(call.name, "() takes one argument"));
  }
  if (function == NativeFunction::kStrftimeNow) return StrftimeNow(arguments[0]);
  BATON_ASSIGN_OR_RETURN(const Text* message, ToText(workspace_, arguments[0]));
  raised_ = true;
  return absl::InvalidArgumentError(Shortened(message->bytes()));
}

absl::StatusOr<Value> Evaluator::StrftimeNow(const Value& format) {
  constexpr size_t kMaxFormatBytes = 256;
  const Text* text = format.text();
  if (text == nullptr || text->size() > kMaxFormatBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("strftime_now() takes a string of at most ", kMaxFormatBytes, " bytes"));
  }
  const std::string bytes(text->bytes());
  // No step: at most kMaxFormatBytes rounds.
  for (size_t at = bytes.find('%'); at != std::string::npos; at = bytes.find('%', at + 2)) {
    if (at + 1 < bytes.size() && absl::StrContains("aAbBdHIjmMpSyY%", bytes[at + 1])) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("strftime_now() does not support '", bytes.substr(at, 2), "'"));
  }
  const absl::TimeZone utc = absl::UTCTimeZone();
  return workspace_.NewText(absl::FormatTime(bytes, absl::FromCivil(today_, utc), utc),
                            text->trusted());
}

absl::StatusOr<Value> Evaluator::Range(const std::vector<Value>& arguments) {
  if (arguments.empty() || arguments.size() > 3) {
    return absl::InvalidArgumentError("range() takes one to three arguments");
  }
  bool trusted = true;
  for (const Value& argument : arguments) {  // no step: at most 3
    if (!argument.IsInteger()) return absl::InvalidArgumentError("range() takes integers");
    trusted = trusted && argument.trusted;
  }
  int64_t at = arguments.size() > 1 ? arguments[0].Integer() : 0;
  const int64_t stop = arguments[arguments.size() > 1 ? 1 : 0].Integer();
  const int64_t step = arguments.size() > 2 ? arguments[2].Integer() : 1;
  if (step == 0) return absl::InvalidArgumentError("range() needs a step other than 0");
  ListBuilder items(workspace_, {.trusted_size = trusted});
  while (step > 0 ? at < stop : at > stop) {
    BATON_RETURN_IF_ERROR(items.Add(Value{at, trusted}));
    if (__builtin_add_overflow(at, step, &at)) break;
  }
  return items.Finish();
}

}  // namespace baton::jinja
