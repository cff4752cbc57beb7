// A form of calls and reasoning for tests: "~t" begins text, "~r" reasoning, "~c" a call's name and
// "~a" its arguments.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "router/tools/tool_form.h"

namespace baton {

class ScriptedParser final : public AnswerParser {
 public:
  std::vector<AnswerPart> Add(absl::string_view text) override {
    std::vector<AnswerPart> parts;
    for (const char character : text) {
      if (marker_) {
        marker_ = false;
        Turn(character, parts);
      } else if (character == '~') {
        marker_ = true;
      } else if (mode_ == 'c') {
        name_ += character;
      } else {
        Grow(character, parts);
      }
    }
    return parts;
  }
  std::vector<AnswerPart> Finish() override { return {}; }

 private:
  void Turn(char mode, std::vector<AnswerPart>& parts) {
    mode_ = mode;
    if (mode == 'c') name_.clear();
    if (mode != 'a') return;
    ++calls_;
    parts.push_back({.kind = AnswerPart::Kind::kCall,
                     .call = calls_,
                     .id = absl::StrCat("call", calls_),
                     .name = name_});
  }

  void Grow(char character, std::vector<AnswerPart>& parts) {
    const auto kind = mode_ == 't'   ? AnswerPart::Kind::kText
                      : mode_ == 'r' ? AnswerPart::Kind::kReasoning
                                     : AnswerPart::Kind::kArguments;
    if (parts.empty() || parts.back().kind != kind) {
      parts.push_back({.kind = kind, .call = kind == AnswerPart::Kind::kArguments ? calls_ : 0});
    }
    parts.back().text += character;
  }

  char mode_ = 't';
  bool marker_ = false;
  int calls_ = -1;
  std::string name_;
};

inline std::unique_ptr<AnswerParser> NewScriptedParser() {
  return std::make_unique<ScriptedParser>();
}

}  // namespace baton
