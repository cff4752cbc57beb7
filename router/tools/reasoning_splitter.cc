#include "router/tools/reasoning_splitter.h"

#include <utility>

#include "router/tools/marker_search.h"
#include "router/tools/text_reader.h"

namespace baton {

using Kind = AnswerPart::Kind;

ReasoningSplitter::ReasoningSplitter(const ReasoningMarkers& markers, bool is_open)
    : begin_{markers.begin}, end_{markers.end} {
  state_ = is_open ? State::kFirstBlank : State::kBefore;
  if (markers.begin.empty()) state_ = State::kBehind;
}

std::string ReasoningSplitter::Add(absl::string_view text, AnswerParts& parts) {
  held_.append(text.data(), text.size());
  while (state_ != State::kBehind && Step(parts)) {
  }
  return state_ == State::kBehind ? std::exchange(held_, {}) : std::string();
}

std::string ReasoningSplitter::Finish(AnswerParts& parts) {
  std::string held = std::exchange(held_, {});
  if (state_ != State::kInside) return held;
  parts.Add(Kind::kReasoning, held);
  return "";
}

bool ReasoningSplitter::Step(AnswerParts& parts) {
  if (state_ == State::kFirstBlank) return SkipBlanks(State::kInside);
  if (state_ == State::kLastBlank) return SkipBlanks(State::kBehind);
  if (state_ == State::kBefore) {
    size_t blanks = 0;
    while (blanks < held_.size() && blanks < kMaxMarkerBlanks && IsJsonSpace(held_[blanks])) {
      ++blanks;
    }
    TextReader reader(absl::string_view(held_).substr(blanks));
    const Fit fit = reader.Literal(begin_.front());
    if (fit == Fit::kMore) return false;
    if (fit == Fit::kYes) held_.erase(0, blanks + begin_.front().size());
    state_ = fit == Fit::kYes ? State::kFirstBlank : State::kBehind;
    return true;
  }
  const MarkerSearch search = FindMarker(held_, end_);
  parts.Add(Kind::kReasoning, absl::string_view(held_).substr(0, search.text_bytes));
  const bool found = search.marker >= 0;
  held_.erase(0, found ? search.end : search.text_bytes);
  if (found) state_ = State::kLastBlank;
  return found;
}

bool ReasoningSplitter::SkipBlanks(State next) {
  size_t blanks = 0;
  while (blanks < held_.size() && IsJsonSpace(held_[blanks])) ++blanks;
  held_.erase(0, blanks);
  if (held_.empty()) return false;
  state_ = next;
  return true;
}

}  // namespace baton
