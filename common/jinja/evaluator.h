// The evaluator of expressions. Statements are run by runtime.cc, which the evaluator calls back
// for macros.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/civil_time.h"

#include "common/jinja/ast.h"
#include "common/jinja/workspace.h"

namespace baton::jinja {

// The variables of one scope. A name that is not among them is looked up in the enclosing scope.
// Borrows the workspace and the enclosing scope.
class Scope {
 public:
  // `around`: the enclosing scope; null: none.
  Scope(Workspace& workspace, Scope* around)
      : around_(around), workspace_(workspace), held_(workspace) {}
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;

  // `name` points into the template or into Run's variables.
  absl::Status Set(absl::string_view name, const Value& value);
  bool Has(absl::string_view name) const { return variables_.contains(name); }
  // The value of a variable; undefined if neither this scope nor an enclosing one has it.
  absl::StatusOr<Value> LookUp(absl::string_view name) const;
  Scope& Outermost();

 private:
  Scope* const around_;
  Workspace& workspace_;
  Held held_;
  absl::flat_hash_map<absl::string_view, Value> variables_;
};

// Counts one level of evaluation as long as it lives.
class DepthGuard {
 public:
  explicit DepthGuard(int& depth) : depth_(depth) { ++depth_; }
  ~DepthGuard() { --depth_; }
  DepthGuard(const DepthGuard&) = delete;
  DepthGuard& operator=(const DepthGuard&) = delete;
  // RESOURCE_EXHAUSTED beyond kMaxEvaluationDepth.
  absl::Status Check() const;

 private:
  int& depth_;
};

// Evaluates the expressions of one rendering. Not thread-safe. Borrows the workspace, which owns
// all results.
class Evaluator {
 public:
  // Runs a macro's body in `scope`.
  using RunMacro = std::function<absl::StatusOr<Value>(const Statement& macro, Scope& scope)>;

  // `today`: the day that strftime_now writes, where it is defined.
  Evaluator(Workspace& workspace, RunMacro run_macro, absl::CivilDay today = absl::CivilDay())
      : workspace_(workspace), run_macro_(std::move(run_macro)), today_(today) {}

  absl::StatusOr<Value> Evaluate(const Expression& expression, Scope& scope);
  int& depth() { return depth_; }
  // Whether raise_exception was called: the error is then the template's own message.
  bool raised() const { return raised_; }

 private:
  absl::StatusOr<Value> Dispatch(const Expression& expression, Scope& scope);
  absl::StatusOr<Value> MakeList(const Expression& expression, Scope& scope);
  absl::StatusOr<Value> MakeDict(const Expression& expression, Scope& scope);
  absl::StatusOr<Value> EvaluateSlice(const Expression& expression, Scope& scope);
  absl::StatusOr<Value> RunBuiltin(const Expression& expression, Scope& scope);
  absl::StatusOr<Value> Choose(const Expression& expression, Scope& scope);
  absl::StatusOr<Value> Call(const Expression& expression, Scope& scope);
  absl::StatusOr<Value> CallMacro(const Statement& macro, const Expression& call, Scope& scope);
  absl::StatusOr<Value> CallNative(NativeFunction function, const Expression& call, Scope& scope);
  absl::StatusOr<Value> Range(const std::vector<Value>& arguments);

  // The day, with a time of 0:00, as Python's strftime() writes it in the C locale.
  absl::StatusOr<Value> StrftimeNow(const Value& format);

  Workspace& workspace_;
  RunMacro run_macro_;
  const absl::CivilDay today_;
  int depth_ = 0;
  bool raised_ = false;
};

// Prefixes the message of an error with the line of the template, unless it has one already.
absl::Status AtLine(int line, const absl::Status& status);

}  // namespace baton::jinja
