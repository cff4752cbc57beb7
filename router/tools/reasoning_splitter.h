// Splits the reasoning off the beginning of an answer.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "router/tools/answer_parts.h"

namespace baton {

// What stands before and behind the reasoning.
struct ReasoningMarkers {
  std::string begin;  // empty: the model writes no reasoning
  std::string end;
};

// Not thread-safe. Blanks beside the markers belong to them.
class ReasoningSplitter {
 public:
  // `is_open`: the answer begins inside the reasoning.
  ReasoningSplitter(const ReasoningMarkers& markers, bool is_open);

  // Adds reasoning to `parts`; returns the text behind it that is certain to be none.
  std::string Add(absl::string_view text, AnswerParts& parts);
  std::string Finish(AnswerParts& parts);

 private:
  enum class State {
    kBefore,      // nothing but blanks yet
    kFirstBlank,  // skips blanks that begin the reasoning
    kInside,
    kLastBlank,  // behind the marker
    kBehind,
  };
  bool Step(AnswerParts& parts);
  bool SkipBlanks(State next);

  const std::vector<std::string> begin_;  // one marker
  const std::vector<std::string> end_;
  State state_;
  std::string held_;
};

}  // namespace baton
