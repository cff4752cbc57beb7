// The lexer of chat templates: it turns the source into tokens of tags and of the text between
// them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace baton::jinja {

enum class TokenKind {
  kText,         // text outside of tags, with white space trimmed already
  kOutputBegin,  // {{
  kOutputEnd,    // }}
  kTagBegin,     // {%
  kTagEnd,       // %}
  kName,
  kString,  // text: the string's value with escapes resolved
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

// Returns all tokens; kEnd is the last. White space is trimmed as with trim_blocks and
// lstrip_blocks, for which chat templates are written: a tag takes the spaces before it on its line
// and one newline after it, '-' takes all white space on its side and '+' none. One newline at the
// end of the template is dropped. Comments are left out, and the body of {% raw %} becomes text.
// Errors name the line.
absl::StatusOr<std::vector<Token>> Tokenize(absl::string_view source);

// Makes the INVALID_ARGUMENT error "chat template line 3: <message>".
absl::Status TemplateError(int line, absl::string_view message);

}  // namespace baton::jinja
