#include "common/jinja/lexer.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

#include "common/base/status_macros.h"
#include "common/jinja/string_literal.h"
#include "common/jinja/text.h"

namespace baton::jinja {
namespace {

constexpr std::array<absl::string_view, 24> kOperators = {
    "**", "//", "==", "!=", "<=", ">=", "(", ")", "[", "]", "{", "}",
    ".",  ",",  ":",  "|",  "=",  "<",  ">", "+", "-", "*", "/", "%"};

// Replaces \r\n and \r by \n and removes one newline at the end.
std::string NormalizeNewlines(absl::string_view source) {
  std::string text;
  text.reserve(source.size());
  for (size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      text += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      text += source[i];
    }
  }
  if (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

bool IsNameStart(char c) { return absl::ascii_isalpha(static_cast<unsigned char>(c)) || c == '_'; }
bool IsDigit(char c) { return absl::ascii_isdigit(static_cast<unsigned char>(c)); }

class Lexer {
 public:
  explicit Lexer(absl::string_view source) : source_(source) {}

  absl::StatusOr<std::vector<Token>> Run() {
    while (position_ < source_.size()) {
      const size_t open = FindOpening(position_);
      if (open == absl::string_view::npos) {
        AddText(source_.substr(position_));
        position_ = source_.size();
        break;
      }
      BATON_RETURN_IF_ERROR(LexMarkup(open));
    }
    Add(TokenKind::kEnd, "");
    return std::move(tokens_);
  }

 private:
  bool At(absl::string_view literal) const {
    return absl::StartsWith(source_.substr(position_), literal);
  }

  void Add(TokenKind kind, absl::string_view text) {
    tokens_.push_back({.kind = kind, .text = std::string(text), .line = line_});
  }

  // Moves to `position`, counting lines.
  void MoveTo(size_t position) {
    line_ +=
        static_cast<int>(std::count(source_.begin() + position_, source_.begin() + position, '\n'));
    position_ = position;
  }

  // The offset of the first {{, {% or {# at or after `from`.
  size_t FindOpening(size_t from) const {
    for (size_t at = source_.find('{', from);
         at != absl::string_view::npos && at + 1 < source_.size(); at = source_.find('{', at + 1)) {
      const char next = source_[at + 1];
      if (next == '{' || next == '%' || next == '#') return at;
    }
    return absl::string_view::npos;
  }

  void AddText(absl::string_view text) {
    if (!text.empty()) Add(TokenKind::kText, text);
  }

  // The text before the tag that opens at `open`, trimmed as the tag demands.
  absl::string_view TextBefore(size_t open) const {
    absl::string_view text = source_.substr(position_, open - position_);
    const char sign = open + 2 < source_.size() ? source_[open + 2] : ' ';
    if (sign == '-') return text.substr(0, SkipSpaceBackwards(text, 0, text.size()));
    if (sign == '+' || source_[open + 1] == '{') return text;
    const size_t newline = text.rfind('\n');
    const size_t line_start = newline == absl::string_view::npos ? 0 : newline + 1;
    if (newline == absl::string_view::npos && !line_starting_) return text;
    if (SkipSpace(text, line_start, text.size()) == text.size()) return text.substr(0, line_start);
    return text;
  }

  absl::Status LexMarkup(size_t open) {
    const absl::string_view text = TextBefore(open);
    AddText(text);
    MoveTo(open);
    const int line = line_;
    const char kind = source_[open + 1];
    size_t inside = open + 2;
    if (inside < source_.size() && (source_[inside] == '-' || source_[inside] == '+')) ++inside;
    if (kind == '#') return LexComment(inside);
    if (kind == '%' && IsTag(inside, "raw")) return LexRaw(inside);
    Add(kind == '{' ? TokenKind::kOutputBegin : TokenKind::kTagBegin, source_.substr(open, 2));
    MoveTo(inside);
    return LexInside(kind == '{' ? "}}" : "%}", line);
  }

  absl::Status LexComment(size_t inside) {
    const size_t close = source_.find("#}", inside);
    if (close == absl::string_view::npos) return TemplateError(line_, "unclosed comment '{#'");
    const bool keeps_newline = close > inside && source_[close - 1] == '+';
    const bool takes_space = close > inside && source_[close - 1] == '-';
    MoveTo(close + 2);
    AfterClosing(takes_space, !keeps_newline);
    return absl::OkStatus();
  }

  // Skips what a closing tag takes after it: all white space, one newline, or nothing.
  void AfterClosing(bool takes_space, bool takes_newline) {
    const size_t start = position_;
    if (takes_space) {
      MoveTo(SkipSpace(source_, position_, source_.size()));
    } else if (takes_newline && At("\n")) {
      MoveTo(position_ + 1);
    }
    line_starting_ = position_ > start && source_[position_ - 1] == '\n';
  }

  // Whether the tag whose body begins at `inside` consists of `name` only.
  bool IsTag(size_t inside, absl::string_view name) const {
    const size_t at = SkipSpace(source_, inside, source_.size());
    if (!absl::StartsWith(source_.substr(at), name)) return false;
    size_t end = SkipSpace(source_, at + name.size(), source_.size());
    if (end < source_.size() && (source_[end] == '-' || source_[end] == '+')) ++end;
    return absl::StartsWith(source_.substr(end), "%}");
  }

  absl::Status LexRaw(size_t inside) {
    const int line = line_;
    const size_t close = source_.find("%}", inside);
    const bool strip = source_[close - 1] == '-';
    MoveTo(close + 2);
    AfterClosing(strip, false);
    for (size_t open = source_.find("{%", position_); open != absl::string_view::npos;
         open = source_.find("{%", open + 1)) {
      size_t tag = open + 2;
      if (tag < source_.size() && (source_[tag] == '-' || source_[tag] == '+')) ++tag;
      if (!IsTag(tag, "endraw")) continue;
      AddText(TextBefore(open));
      const size_t end = source_.find("%}", tag);
      MoveTo(end + 2);
      AfterClosing(source_[end - 1] == '-', source_[end - 1] != '+');
      return absl::OkStatus();
    }
    return TemplateError(line, "unclosed {% raw %}");
  }

  absl::Status LexInside(absl::string_view close, int opening_line) {
    std::string brackets;  // open brackets; inside them `}}` closes dicts and not the tag
    while (true) {
      MoveTo(SkipSpace(source_, position_, source_.size()));
      if (position_ >= source_.size()) {
        return TemplateError(opening_line, absl::StrCat("a tag is not closed by '", close, "'"));
      }
      if (brackets.empty() && LexClosing(close)) return absl::OkStatus();
      BATON_RETURN_IF_ERROR(LexToken(brackets));
    }
  }

  bool LexClosing(absl::string_view close) {
    const bool minus = At(absl::StrCat("-", close));
    const bool plus = close == "%}" && At("+%}");
    if (!minus && !plus && !At(close)) return false;
    const bool is_output = close == "}}";
    Add(is_output ? TokenKind::kOutputEnd : TokenKind::kTagEnd, close);
    MoveTo(position_ + close.size() + (minus || plus ? 1 : 0));
    AfterClosing(minus, !is_output && !plus);
    return true;
  }

  absl::Status LexToken(std::string& brackets) {
    const char c = source_[position_];
    if (IsNameStart(c)) return LexName();
    if (IsDigit(c)) return LexNumber();
    if (c == '\'' || c == '"') return LexString(c);
    if (c == '~') {
      Add(TokenKind::kOperator, "~");
      MoveTo(position_ + 1);
      return absl::OkStatus();
    }
    for (const absl::string_view op : kOperators) {
      if (!At(op)) continue;
      BATON_RETURN_IF_ERROR(TrackBracket(op, brackets));
      Add(TokenKind::kOperator, op);
      MoveTo(position_ + op.size());
      return absl::OkStatus();
    }
    return TemplateError(
        line_, absl::StrCat("unexpected character '", source_.substr(position_, 1), "' in a tag"));
  }

  absl::Status TrackBracket(absl::string_view op, std::string& brackets) const {
    if (op == "(") brackets += ')';
    if (op == "[") brackets += ']';
    if (op == "{") brackets += '}';
    if (op == ")" || op == "]" || op == "}") {
      if (brackets.empty() || brackets.back() != op[0]) {
        return TemplateError(line_, absl::StrCat("unexpected '", op, "'"));
      }
      brackets.pop_back();
    }
    return absl::OkStatus();
  }

  absl::Status LexName() {
    size_t end = position_;
    while (end < source_.size() && (IsNameStart(source_[end]) || IsDigit(source_[end]))) ++end;
    Add(TokenKind::kName, source_.substr(position_, end - position_));
    MoveTo(end);
    return absl::OkStatus();
  }

  absl::Status LexNumber() {
    const char* const begin = source_.data() + position_;
    const char* const limit = source_.data() + source_.size();
    Token token{.kind = TokenKind::kInteger, .text = "", .line = line_};
    std::from_chars_result end = std::from_chars(begin, limit, token.integer);
    const bool is_float = end.ptr + 1 < limit && *end.ptr == '.' && IsDigit(end.ptr[1]);
    const bool is_exponent = end.ptr < limit && (*end.ptr == 'e' || *end.ptr == 'E');
    if (is_float || is_exponent) {
      token.kind = TokenKind::kFloat;
      end = std::from_chars(begin, limit, token.number);
    }
    const bool runs_on = end.ptr < limit && (IsNameStart(*end.ptr) || IsDigit(*end.ptr));
    if (end.ec != std::errc() || runs_on) {
      const size_t shown = std::min<size_t>(24, static_cast<size_t>(limit - begin));
      return TemplateError(
          line_, absl::StrCat("unsupported number '", absl::string_view(begin, shown), "'"));
    }
    token.text.assign(begin, end.ptr);
    tokens_.push_back(std::move(token));
    MoveTo(position_ + static_cast<size_t>(end.ptr - begin));
    return absl::OkStatus();
  }

  absl::Status LexString(char quote) {
    size_t end = position_ + 1;
    while (end < source_.size() && source_[end] != quote)
      end += source_[end] == '\\' ? size_t{2} : size_t{1};
    if (end >= source_.size()) return TemplateError(line_, "unclosed string");
    auto value = UnescapeStringLiteral(source_.substr(position_ + 1, end - position_ - 1));
    if (!value.ok()) return TemplateError(line_, value.status().message());
    Add(TokenKind::kString, *value);
    MoveTo(end + 1);
    return absl::OkStatus();
  }

  absl::string_view source_;
  size_t position_ = 0;
  int line_ = 1;
  bool line_starting_ = true;  // position_ is at the beginning of a line
  std::vector<Token> tokens_;
};

}  // namespace

absl::StatusOr<std::vector<Token>> Tokenize(absl::string_view source) {
  return Lexer(NormalizeNewlines(source)).Run();
}

absl::Status TemplateError(int line, absl::string_view message) {
  return absl::InvalidArgumentError(absl::StrCat("chat template line ", line, ": ", message));
}

}  // namespace baton::jinja
