// Cuts a chat template into the tokens of its tags and the text between them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::jinja {

enum class TokenKind {
  kText,         // literal text, white space already trimmed
  kOutputBegin,  // {{
  kOutputEnd,    // }}
  kTagBegin,     // {%
  kTagEnd,       // %}
  kName,
  kString,  // text: the string's value, escapes resolved
  kInteger,
  kFloat,
  kOperator,  // text: one of ( ) [ ] { } . , : | = == != < <= > >= + - * / // % ~ **
  kEnd,
};

struct Token {
  TokenKind kind = TokenKind::kEnd;
  std::string text;
  int64_t integer = 0;
  double number = 0;
  int line = 1;  // counted from 1
};

// All tokens, kEnd last. White space as with trim_blocks and lstrip_blocks, which is how chat
// templates are written: a tag takes the spaces before it on its line and one newline after it; '-'
// takes all white space, '+' none. One newline at the end of the template is dropped. Comments are
// gone; {% raw %} has become text.
absl::StatusOr<std::vector<Token>> Tokenize(absl::string_view source);

// "chat template line 3: <message>".
absl::Status TemplateError(int line, absl::string_view message);

}  // namespace baton::jinja
