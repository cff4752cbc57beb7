// Reads what the beginning of a text must be, where more of the text may be to come.
#pragma once

#include <cstddef>

#include "absl/strings/match.h"
#include "absl/strings/string_view.h"

#include "common/protocol/tool_name.h"

namespace baton {

enum class Fit {
  kMore,  // so far it fits
  kNo,    // it does not, whatever comes
  kYes,   // it does, whatever comes
};

inline bool IsJsonSpace(char byte) {
  return byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t';
}

// Borrows the text. What it says of a text is what it says of every longer one, unless it is kMore.
class TextReader {
 public:
  explicit TextReader(absl::string_view text) : text_(text) {}

  size_t at() const { return at_; }  // bytes that were read
  absl::string_view rest() const { return text_.substr(at_); }

  void SkipSpace() {
    while (at_ < text_.size() && IsJsonSpace(text_[at_])) ++at_;
  }
  Fit Literal(absl::string_view literal) {
    if (absl::StartsWith(rest(), literal)) {
      at_ += literal.size();
      return Fit::kYes;
    }
    return absl::StartsWith(literal, rest()) ? Fit::kMore : Fit::kNo;
  }
  // A JSON string without escapes; `text` is what stands in it.
  Fit QuotedText(absl::string_view& text) {
    if (const Fit fit = Literal("\""); fit != Fit::kYes) return fit;
    const size_t end = rest().find_first_of("\"\\");
    if (end == absl::string_view::npos) return Fit::kMore;
    if (rest()[end] == '\\') return Fit::kNo;
    text = rest().substr(0, end);
    at_ += end + 1;
    return Fit::kYes;
  }
  // A tool's name, as long as it can be.
  Fit Name(absl::string_view& name) {
    size_t end = 0;
    while (end < rest().size() && IsToolNameByte(rest()[end])) ++end;
    if (end > kMaxToolNameBytes) return Fit::kNo;
    if (end == rest().size()) return Fit::kMore;
    if (end == 0) return Fit::kNo;
    name = rest().substr(0, end);
    at_ += end;
    return Fit::kYes;
  }

 private:
  absl::string_view text_;
  size_t at_ = 0;
};

}  // namespace baton
