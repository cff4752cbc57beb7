#include "common/jinja/token_cursor.h"

#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"

#include "common/jinja/parser.h"

namespace baton::jinja {
namespace {

constexpr std::array<absl::string_view, 7> kReserved = {"and",  "or", "not", "if",
                                                        "else", "in", "is"};
bool IsReserved(absl::string_view name) {
  return std::find(kReserved.begin(), kReserved.end(), name) != kReserved.end();
}

}  // namespace

const Token& TokenCursor::PeekSecond() const {
  return Peek().kind == TokenKind::kEnd ? Peek() : tokens_[position_ + 1];
}

const Token& TokenCursor::Next() {
  const Token& token = tokens_[position_];
  if (token.kind != TokenKind::kEnd) ++position_;
  return token;
}

bool TokenCursor::AtOperator(absl::string_view op) const {
  return Peek().kind == TokenKind::kOperator && Peek().text == op;
}

bool TokenCursor::AtName(absl::string_view name) const {
  return Peek().kind == TokenKind::kName && Peek().text == name;
}

bool TokenCursor::TakeOperator(absl::string_view op) {
  if (!AtOperator(op)) return false;
  Next();
  return true;
}

bool TokenCursor::TakeName(absl::string_view name) {
  if (!AtName(name)) return false;
  Next();
  return true;
}

absl::Status TokenCursor::ExpectOperator(absl::string_view op) {
  if (TakeOperator(op)) return absl::OkStatus();
  return TemplateError(Peek().line, absl::StrCat("expected '", op, "' before '", Peek().text, "'"));
}

absl::StatusOr<std::string> TokenCursor::ExpectVariable() {
  if (Peek().kind != TokenKind::kName || IsReserved(Peek().text)) return Unexpected();
  return Next().text;
}

absl::Status TokenCursor::Unexpected() const {
  const Token& token = Peek();
  if (token.kind == TokenKind::kEnd) {
    return TemplateError(token.line, "unexpected end of the template");
  }
  return TemplateError(token.line, absl::StrCat("unexpected '", token.text, "'"));
}

absl::Status TokenCursor::Nesting::Check() const {
  if (cursor_.nesting_ <= kMaxNesting) return absl::OkStatus();
  return TemplateError(cursor_.Peek().line, absl::StrCat("nested deeper than ", kMaxNesting));
}

}  // namespace baton::jinja
