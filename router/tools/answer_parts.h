// The parts of an answer as they are found.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "router/tools/tool_form.h"

namespace baton {

// Not thread-safe.
class AnswerParts {
 public:
  // `single_call`: the first call is kept alone; further ones are left out, with their arguments.
  explicit AnswerParts(bool single_call = false) : single_call_(single_call) {}

  // Text, reasoning or arguments; joined with the part before it if that is of its kind.
  void Add(AnswerPart::Kind kind, absl::string_view text, int call = 0) {
    if (text.empty() || IsLeftOut(call)) return;
    if (parts_.empty() || parts_.back().kind != kind || parts_.back().call != call) {
      parts_.push_back({.kind = kind, .call = call});
    }
    parts_.back().text.append(text.data(), text.size());
  }
  void AddText(absl::string_view text) { Add(AnswerPart::Kind::kText, text); }
  void BeginCall(int call, std::string id, std::string name) {
    if (IsLeftOut(call)) return;
    parts_.push_back({.kind = AnswerPart::Kind::kCall,
                      .call = call,
                      .id = std::move(id),
                      .name = std::move(name)});
  }
  std::vector<AnswerPart> Take() { return std::exchange(parts_, {}); }

 private:
  bool IsLeftOut(int call) const { return single_call_ && call > 0; }

  bool single_call_;
  std::vector<AnswerPart> parts_;
};

}  // namespace baton
