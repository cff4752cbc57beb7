#include "client/answer_printer.h"

#include "absl/strings/str_cat.h"

#include "common/base/standard_output.h"

namespace baton {

void AnswerPrinter::Take(const v1::GenerateResponse& event) {
  if (answer_.choices.size() == 1) {
    const std::string& text = event.chunk().text();
    WriteOutput(text);
    printed_ |= !text.empty();
    return;
  }
  for (; next_choice_ < answer_.choices.size(); ++next_choice_) {
    const v1::GenerateComplete& choice = answer_.choices[next_choice_];
    if (choice.finish_reason() == v1::FINISH_REASON_UNSPECIFIED) return;
    WriteOutput(absl::StrCat(next_choice_ == 0 ? "" : "\n", "choice ", next_choice_ + 1, " of ",
                             answer_.choices.size(), ":\n", choice.text(), "\n"));
  }
}

void AnswerPrinter::End() {
  const bool one = answer_.choices.size() == 1;
  if (one && (printed_ || answer_.status.ok())) WriteOutput("\n");
}

}  // namespace baton
