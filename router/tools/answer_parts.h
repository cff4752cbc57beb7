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
  // Text, reasoning or arguments; joined with the part before it where that is of its kind.
  void Add(AnswerPart::Kind kind, absl::string_view text, int call = 0) {
    if (text.empty()) return;
    if (parts_.empty() || parts_.back().kind != kind || parts_.back().call != call) {
      parts_.push_back({.kind = kind, .call = call});
    }
    parts_.back().text.append(text.data(), text.size());
  }
  void AddText(absl::string_view text) { Add(AnswerPart::Kind::kText, text); }
  void BeginCall(int call, std::string id, std::string name) {
    parts_.push_back({.kind = AnswerPart::Kind::kCall,
                      .call = call,
                      .id = std::move(id),
                      .name = std::move(name)});
  }
  std::vector<AnswerPart> Take() { return std::exchange(parts_, {}); }

 private:
  std::vector<AnswerPart> parts_;
};

}  // namespace baton
