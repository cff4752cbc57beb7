#include "common/jinja/runtime.h"

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/jinja/evaluator.h"

namespace baton::jinja {
namespace {

// How the enclosing loop continues after a statement.
enum class Flow { kNext, kBreak, kContinue };

class Runtime {
 public:
  Runtime(Workspace& workspace, const std::optional<absl::CivilDay>& today)
      : workspace_(workspace),
        has_today_(today.has_value()),
        evaluator_(
            workspace,
            [this](const Statement& macro, Scope& scope) { return Capture(macro.body, scope); },
            today.value_or(absl::CivilDay())) {}

  absl::StatusOr<Text> Run(const Block& block, const Variables& variables) {
    Scope scope(workspace_, nullptr);
    BATON_RETURN_IF_ERROR(scope.Set("raise_exception", Value{NativeFunction::kRaiseException}));
    BATON_RETURN_IF_ERROR(scope.Set("namespace", Value{NativeFunction::kNamespace}));
    BATON_RETURN_IF_ERROR(scope.Set("range", Value{NativeFunction::kRange}));
    if (has_today_) {
      BATON_RETURN_IF_ERROR(scope.Set("strftime_now", Value{NativeFunction::kStrftimeNow}));
    }
    for (const auto& [name, value] : variables) {
      BATON_RETURN_IF_ERROR(scope.Set(name, value));
    }
    TextBuilder output(workspace_);
    output_ = &output;
    BATON_RETURN_IF_ERROR(RunBlock(block, scope).status());
    return output.Release();
  }

 private:
  absl::StatusOr<Flow> RunBlock(const Block& block, Scope& scope) {
    for (const auto& statement : block) {
      const DepthGuard guard(evaluator_.depth());
      absl::Status status = guard.Check();
      if (status.ok()) status = workspace_.Step();
      if (!status.ok()) return AtLine(statement->line, status);
      absl::StatusOr<Flow> flow = RunStatement(*statement, scope);
      if (!flow.ok() && !evaluator_.raised()) return AtLine(statement->line, flow.status());
      if (!flow.ok() || *flow != Flow::kNext) return flow;
    }
    return Flow::kNext;
  }

  absl::StatusOr<Flow> RunStatement(const Statement& statement, Scope& scope) {
    switch (statement.kind) {
      case StatementKind::kText:
        BATON_RETURN_IF_ERROR(output_->Append(statement.text));
        return Flow::kNext;
      case StatementKind::kOutput: {
        BATON_ASSIGN_OR_RETURN(const Value value,
                               evaluator_.Evaluate(*statement.expression, scope));
        BATON_ASSIGN_OR_RETURN(const Text* text, ToText(workspace_, value));
        BATON_RETURN_IF_ERROR(output_->Append(*text));
        return Flow::kNext;
      }
      case StatementKind::kIf:
        return RunIf(statement, scope);
      case StatementKind::kFor:
        return RunFor(statement, scope);
      case StatementKind::kSet:
        BATON_RETURN_IF_ERROR(RunSet(statement, scope));
        return Flow::kNext;
      case StatementKind::kSetBlock: {
        Scope inner(workspace_, &scope);
        BATON_ASSIGN_OR_RETURN(const Value value, Capture(statement.body, inner));
        BATON_RETURN_IF_ERROR(Assign(statement, value, scope));
        return Flow::kNext;
      }
      case StatementKind::kMacro:
        BATON_RETURN_IF_ERROR(scope.Set(statement.names[0], Value{&statement}));
        return Flow::kNext;
      case StatementKind::kBreak:
        return Flow::kBreak;
      case StatementKind::kContinue:
        return Flow::kContinue;
    }
    return Flow::kNext;
  }

  // Runs the block and returns the text that it writes as a value.
  absl::StatusOr<Value> Capture(const Block& block, Scope& scope) {
    TextBuilder written(workspace_);
    TextBuilder* const outer = std::exchange(output_, &written);
    const absl::Status status = RunBlock(block, scope).status();
    output_ = outer;
    BATON_RETURN_IF_ERROR(status);
    return written.Finish();
  }

  absl::StatusOr<Flow> RunIf(const Statement& statement, Scope& scope) {
    for (const auto& [condition, block] : statement.branches) {
      BATON_ASSIGN_OR_RETURN(const Value value, evaluator_.Evaluate(*condition, scope));
      if (IsTrue(value)) return RunBlock(block, scope);
    }
    return RunBlock(statement.otherwise, scope);
  }

  absl::StatusOr<Flow> RunFor(const Statement& statement, Scope& scope) {
    BATON_ASSIGN_OR_RETURN(const Value iterable, evaluator_.Evaluate(*statement.expression, scope));
    BATON_ASSIGN_OR_RETURN(const List* items, Iterate(workspace_, iterable));
    if (statement.filter != nullptr) {
      BATON_ASSIGN_OR_RETURN(items, Filter(statement, *items, scope));
    }
    if (items->items.empty()) {
      Scope inner(workspace_, &scope);
      return RunBlock(statement.otherwise, inner);
    }
    BATON_ASSIGN_OR_RETURN(Loop* const loop, workspace_.NewLoop(items));
    for (; loop->index < items->items.size(); ++loop->index) {
      BATON_RETURN_IF_ERROR(workspace_.Step());
      Scope inner(workspace_, &scope);  // variables that the body sets last for one iteration
      BATON_RETURN_IF_ERROR(inner.Set("loop", Value{static_cast<const Loop*>(loop)}));
      BATON_RETURN_IF_ERROR(Unpack(statement, items->items[loop->index], inner));
      BATON_ASSIGN_OR_RETURN(const Flow flow, RunBlock(statement.body, inner));
      if (flow == Flow::kBreak) break;
    }
    return Flow::kNext;
  }

  absl::StatusOr<const List*> Filter(const Statement& statement, const List& items, Scope& scope) {
    ListBuilder kept(workspace_, {.trusted_size = items.trusted_size});
    for (const Value& item : items.items) {
      Scope inner(workspace_, &scope);
      BATON_RETURN_IF_ERROR(Unpack(statement, item, inner));
      BATON_ASSIGN_OR_RETURN(const Value keep, evaluator_.Evaluate(*statement.filter, inner));
      if (!TrustOf(keep)) kept.DistrustSize();
      if (IsTrue(keep)) BATON_RETURN_IF_ERROR(kept.Add(item));
    }
    BATON_ASSIGN_OR_RETURN(const Value list, kept.Finish());
    return list.list();
  }

  // Assigns the value to the statement's name, or its items to the names if there are several.
  absl::Status Unpack(const Statement& statement, const Value& value, Scope& scope) {
    if (statement.names.size() == 1) return scope.Set(statement.names[0], value);
    BATON_ASSIGN_OR_RETURN(const List* parts, Iterate(workspace_, value));
    if (parts->items.size() != statement.names.size()) {
      return absl::InvalidArgumentError(
          absl::StrCat(parts->items.size(), " values for ", statement.names.size(), " names"));
    }
    for (size_t i = 0; i < parts->items.size(); ++i) {
      BATON_RETURN_IF_ERROR(scope.Set(statement.names[i], parts->items[i]));
    }
    return absl::OkStatus();
  }

  absl::Status RunSet(const Statement& statement, Scope& scope) {
    BATON_ASSIGN_OR_RETURN(const Value value, evaluator_.Evaluate(*statement.expression, scope));
    return Assign(statement, value, scope);
  }

  absl::Status Assign(const Statement& statement, const Value& value, Scope& scope) {
    if (statement.attribute.empty()) return Unpack(statement, value, scope);
    BATON_ASSIGN_OR_RETURN(const Value target, scope.LookUp(statement.names[0]));
    if (!target.Is<Namespace*>()) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot set an attribute of a ", Describe(target)));
    }
    auto& attributes = std::get<Namespace*>(target.data)->attributes;
    for (auto& [name, held] : attributes) {
      BATON_RETURN_IF_ERROR(workspace_.StepByte());
      if (name != statement.attribute) continue;
      held = value;
      return absl::OkStatus();
    }
    BATON_RETURN_IF_ERROR(workspace_.Take(4 * sizeof(attributes.front())));  // it may double
    attributes.emplace_back(statement.attribute, value);
    return absl::OkStatus();
  }

  Workspace& workspace_;
  const bool has_today_;
  Evaluator evaluator_;
  TextBuilder* output_ = nullptr;  // what is written goes there
};

}  // namespace

absl::StatusOr<Text> Run(const Block& block, const Variables& variables, Workspace& workspace,
                         const std::optional<absl::CivilDay>& today) {
  return Runtime(workspace, today).Run(block, variables);
}

}  // namespace baton::jinja
