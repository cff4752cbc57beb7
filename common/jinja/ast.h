// The abstract syntax tree of a chat template. Immutable after parsing, hence thread-safe.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/jinja/builtins.h"
#include "common/jinja/text.h"
#include "common/jinja/value.h"

namespace baton::jinja {

enum class Operator {
  kAdd,
  kSubtract,
  kMultiply,
  kDivide,
  kFloorDivide,
  kModulo,
  kConcatenate,
  kEqual,
  kNotEqual,
  kLess,
  kLessEqual,
  kGreater,
  kGreaterEqual,
  kIn,
  kNotIn,
  kNegate,
  kPlus,
  kNot,
};

// The kinds of expressions, each with the fields of Expression that it uses.
enum class ExpressionKind {
  kLiteral,      // literal
  kVariable,     // name
  kList,         // operands
  kDict,         // operands: key, value, key, value, ...
  kAttribute,    // operands[0].name
  kSubscript,    // operands[0][operands[1]]
  kSlice,        // operands[0][operands[1] : operands[2] : operands[3]], absent ones null
  kUnary,        // op operands[0]
  kBinary,       // operands[0] op operands[1]
  kAnd,          // operands[0] and operands[1]
  kOr,           // operands[0] or operands[1]
  kConditional,  // operands[0] if operands[1] else operands[2], which may be null
  kBuiltin,      // builtin (a filter, test or method) of operands[0] with the other operands as its
                 // parameters, absent ones null
  kCall,         // name(operands..., named...), a macro or a function
};

struct Expression {
  ExpressionKind kind = ExpressionKind::kLiteral;
  int line = 1;   // line of the template, from 1
  int depth = 1;  // height of this subtree, at most kMaxExpressionDepth
  Operator op = Operator::kAdd;
  std::string name;
  Value literal;
  std::unique_ptr<Text> literal_text;  // owns the text of a string literal
  const Builtin* builtin = nullptr;
  std::vector<std::unique_ptr<Expression>> operands;
  std::vector<std::pair<std::string, std::unique_ptr<Expression>>> named;
};

// The kinds of statements, each with the fields of Statement that it uses.
enum class StatementKind {
  kText,      // text
  kOutput,    // expression
  kIf,        // branches: (condition, block); otherwise: the block of else
  kFor,       // for names in expression if filter: body; otherwise if no item was visited
  kSet,       // names = expression, or names[0].attribute = expression
  kSetBlock,  // names[0] or names[0].attribute = the text that body writes
  kMacro,     // names[0](parameters): body
  kBreak,
  kContinue,
};

struct Statement;
using Block = std::vector<std::unique_ptr<Statement>>;

struct Statement {
  StatementKind kind = StatementKind::kText;
  int line = 1;
  Text text;
  std::vector<std::string> names;
  std::string attribute;
  std::unique_ptr<Expression> expression;
  std::unique_ptr<Expression> filter;
  std::vector<std::pair<std::unique_ptr<Expression>, Block>> branches;
  std::vector<std::pair<std::string, std::unique_ptr<Expression>>> parameters;  // name, default
  Block body;
  Block otherwise;
};

}  // namespace baton::jinja
