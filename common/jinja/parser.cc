#include "common/jinja/parser.h"

#include <algorithm>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/jinja/expression_parser.h"
#include "common/jinja/lexer.h"
#include "common/jinja/token_cursor.h"

namespace baton::jinja {
namespace {

using StatementPtr = std::unique_ptr<Statement>;

constexpr char kStrftimeNow[] = "strftime_now";

class Parser {
 public:
  explicit Parser(const std::vector<Token>& tokens) : cursor_(tokens), expressions_(cursor_) {}

  absl::StatusOr<Block> Run() {
    Block block;
    BATON_RETURN_IF_ERROR(ParseBlock({}, block));
    BATON_RETURN_IF_ERROR(CheckCalls());
    return block;
  }

  // REQUIRES: Run() has returned a block.
  bool NeedsToday() const {
    const auto& calls = expressions_.calls();
    const bool called = std::any_of(calls.begin(), calls.end(),
                                    [](const auto& call) { return call.name == kStrftimeNow; });
    return called && expressions_.questioned().count(kStrftimeNow) == 0 &&
           assigned_.count(kStrftimeNow) == 0;
  }

 private:
  // Parses statements up to a tag whose name is in `ends`, takes that tag's "{%" and name, and puts
  // the name into `end`.
  absl::Status ParseBlock(const std::set<std::string>& ends, Block& block,
                          std::string* end = nullptr) {
    const TokenCursor::Nesting nesting(cursor_);
    BATON_RETURN_IF_ERROR(nesting.Check());
    while (true) {
      switch (cursor_.Peek().kind) {
        case TokenKind::kEnd:
          if (ends.empty()) return absl::OkStatus();
          return TemplateError(cursor_.Peek().line,
                               absl::StrCat("'", *ends.begin(), "' is missing at the end"));
        case TokenKind::kText: {
          auto statement = Make(StatementKind::kText);
          statement->text = Text(cursor_.Next().text, true);
          block.push_back(std::move(statement));
          break;
        }
        case TokenKind::kOutputBegin:
          BATON_RETURN_IF_ERROR(ParseOutput(block));
          break;
        case TokenKind::kTagBegin: {
          BATON_ASSIGN_OR_RETURN(const std::string name, TakeTagName());
          if (ends.count(name) > 0) {
            if (end != nullptr) *end = name;
            return absl::OkStatus();
          }
          BATON_RETURN_IF_ERROR(ParseTag(name, block));
          break;
        }
        default:
          return cursor_.Unexpected();
      }
    }
  }

  absl::StatusOr<std::string> TakeTagName() {
    cursor_.Next();
    if (cursor_.Peek().kind != TokenKind::kName) return cursor_.Unexpected();
    tag_line_ = cursor_.Peek().line;
    return cursor_.Next().text;
  }

  absl::Status ParseOutput(Block& block) {
    cursor_.Next();
    auto statement = Make(StatementKind::kOutput);
    BATON_ASSIGN_OR_RETURN(statement->expression, expressions_.ParseExpressionList(true));
    if (cursor_.Peek().kind != TokenKind::kOutputEnd) return cursor_.Unexpected();
    cursor_.Next();
    block.push_back(std::move(statement));
    return absl::OkStatus();
  }

  absl::Status ParseTag(const std::string& name, Block& block) {
    if (name == "if") return ParseIf(block);
    if (name == "for") return ParseFor(block);
    if (name == "set") return ParseSet(block);
    if (name == "macro") return ParseMacro(block);
    if (name == "generation") return ParseGeneration(block);
    if (name == "break" || name == "continue") {
      if (loops_ == 0) return TemplateError(tag_line_, absl::StrCat("'", name, "' outside a loop"));
      block.push_back(Make(name == "break" ? StatementKind::kBreak : StatementKind::kContinue));
      return EndTag();
    }
    return TemplateError(tag_line_, absl::StrCat("unsupported tag '", name, "'"));
  }

  absl::Status EndTag() {
    if (cursor_.Peek().kind != TokenKind::kTagEnd) return cursor_.Unexpected();
    cursor_.Next();
    return absl::OkStatus();
  }

  absl::Status ParseIf(Block& block) {
    auto statement = Make(StatementKind::kIf);
    std::string end = "elif";
    while (end == "elif") {
      auto& branch = statement->branches.emplace_back();
      BATON_ASSIGN_OR_RETURN(branch.first, expressions_.ParseExpressionList(true));
      BATON_RETURN_IF_ERROR(EndTag());
      BATON_RETURN_IF_ERROR(ParseBlock({"endif", "elif", "else"}, branch.second, &end));
    }
    if (end == "else") {
      BATON_RETURN_IF_ERROR(EndTag());
      BATON_RETURN_IF_ERROR(ParseBlock({"endif"}, statement->otherwise));
    }
    block.push_back(std::move(statement));
    return EndTag();
  }

  absl::Status ParseFor(Block& block) {
    auto statement = Make(StatementKind::kFor);
    BATON_RETURN_IF_ERROR(ParseTargets(*statement));
    if (!cursor_.TakeName("in")) return cursor_.Unexpected();
    BATON_ASSIGN_OR_RETURN(statement->expression, expressions_.ParseExpressionList(false));
    if (cursor_.TakeName("if")) {
      BATON_ASSIGN_OR_RETURN(statement->filter, expressions_.ParseExpression());
    }
    if (cursor_.AtName("recursive")) {
      return TemplateError(tag_line_, "unsupported: a recursive 'for'");
    }
    BATON_RETURN_IF_ERROR(EndTag());
    std::string end;
    ++loops_;
    BATON_RETURN_IF_ERROR(ParseBlock({"endfor", "else"}, statement->body, &end));
    --loops_;
    if (end == "else") {
      BATON_RETURN_IF_ERROR(EndTag());
      BATON_RETURN_IF_ERROR(ParseBlock({"endfor"}, statement->otherwise));
    }
    block.push_back(std::move(statement));
    return EndTag();
  }

  // Parses the targets of an assignment: one name, or several that a list is unpacked into.
  absl::Status ParseTargets(Statement& statement) {
    const bool parenthesis = cursor_.TakeOperator("(");
    do {
      BATON_ASSIGN_OR_RETURN(std::string name, cursor_.ExpectVariable());
      assigned_.insert(name);
      statement.names.push_back(std::move(name));
    } while (cursor_.TakeOperator(","));
    return parenthesis ? cursor_.ExpectOperator(")") : absl::OkStatus();
  }

  absl::Status ParseSet(Block& block) {
    auto statement = Make(StatementKind::kSet);
    BATON_RETURN_IF_ERROR(ParseTargets(*statement));
    if (statement->names.size() == 1 && cursor_.TakeOperator(".")) {
      BATON_ASSIGN_OR_RETURN(statement->attribute, cursor_.ExpectVariable());
    }
    if (cursor_.TakeOperator("=")) {
      BATON_ASSIGN_OR_RETURN(statement->expression, expressions_.ParseExpressionList(true));
      block.push_back(std::move(statement));
      return EndTag();
    }
    if (cursor_.AtOperator("|")) {
      return TemplateError(tag_line_, "unsupported: a filter on a 'set' block");
    }
    if (statement->names.size() != 1) return cursor_.Unexpected();
    statement->kind = StatementKind::kSetBlock;
    BATON_RETURN_IF_ERROR(EndTag());
    BATON_RETURN_IF_ERROR(ParseBody("endset", statement->body));
    block.push_back(std::move(statement));
    return EndTag();
  }

  // Parses a body that no `break` can leave: the loops around it do not count inside.
  absl::Status ParseBody(const std::string& end, Block& body) {
    const int outer_loops = std::exchange(loops_, 0);
    const absl::Status status = ParseBlock({end}, body);
    loops_ = outer_loops;
    return status;
  }

  absl::Status ParseMacro(Block& block) {
    if (loops_ > 0 || in_macro_) {
      return TemplateError(tag_line_, "unsupported: a macro inside a loop or a macro");
    }
    auto statement = Make(StatementKind::kMacro);
    BATON_ASSIGN_OR_RETURN(std::string name, cursor_.ExpectVariable());
    assigned_.insert(name);
    statement->names.push_back(std::move(name));
    BATON_RETURN_IF_ERROR(cursor_.ExpectOperator("("));
    while (!cursor_.TakeOperator(")")) {
      if (!statement->parameters.empty()) BATON_RETURN_IF_ERROR(cursor_.ExpectOperator(","));
      auto& parameter = statement->parameters.emplace_back();
      BATON_ASSIGN_OR_RETURN(parameter.first, cursor_.ExpectVariable());
      assigned_.insert(parameter.first);
      if (!cursor_.TakeOperator("=")) continue;
      BATON_ASSIGN_OR_RETURN(parameter.second, expressions_.ParseExpression());
    }
    BATON_RETURN_IF_ERROR(EndTag());
    in_macro_ = true;
    BATON_RETURN_IF_ERROR(ParseBody("endmacro", statement->body));
    in_macro_ = false;
    block.push_back(std::move(statement));
    return EndTag();
  }

  // Parses {% generation %}, which marks the assistant's text for training. The body is rendered as
  // if the tags were not there.
  absl::Status ParseGeneration(Block& block) {
    BATON_RETURN_IF_ERROR(EndTag());
    BATON_RETURN_IF_ERROR(ParseBlock({"endgeneration"}, block));
    return EndTag();
  }

  absl::Status CheckCalls() const {
    for (const auto& call : expressions_.calls()) {
      const bool native = call.name == "raise_exception" || call.name == "namespace" ||
                          call.name == "range" || call.name == kStrftimeNow;
      if (native || assigned_.count(call.name) > 0 ||
          expressions_.questioned().count(call.name) > 0) {
        continue;
      }
      return TemplateError(call.line, absl::StrCat("unknown function '", call.name, "'"));
    }
    return absl::OkStatus();
  }

  StatementPtr Make(StatementKind kind) const {
    auto statement = std::make_unique<Statement>();
    statement->kind = kind;
    statement->line = cursor_.Peek().line;
    return statement;
  }

  TokenCursor cursor_;
  ExpressionParser expressions_;
  int tag_line_ = 1;
  int loops_ = 0;  // number of loops around the cursor
  bool in_macro_ = false;
  std::set<std::string> assigned_;  // all names that the template assigns
};

}  // namespace

absl::StatusOr<Block> Parse(absl::string_view source, bool* needs_today) {
  if (source.size() > kMaxTemplateBytes) {
    return absl::InvalidArgumentError(absl::StrCat("the chat template has ", source.size(),
                                                   " bytes, more than ", kMaxTemplateBytes));
  }
  BATON_ASSIGN_OR_RETURN(const std::vector<Token> tokens, Tokenize(source));
  Parser parser(tokens);
  BATON_ASSIGN_OR_RETURN(Block block, parser.Run());
  if (needs_today != nullptr) *needs_today = parser.NeedsToday();
  return block;
}

}  // namespace baton::jinja
