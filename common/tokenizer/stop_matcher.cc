#include "common/tokenizer/stop_matcher.h"

#include <algorithm>
#include <utility>

namespace baton {

StopMatcher::StopMatcher(std::vector<std::string> stops, bool include_stop_in_output)
    : include_stop_in_output_(include_stop_in_output) {
  for (std::string& text : stops) {
    if (text.empty()) continue;
    Stop stop;
    stop.border.assign(text.size(), 0);
    for (size_t i = 1, length = 0; i < text.size(); ++i) {
      while (length > 0 && text[length] != text[i]) length = stop.border[length - 1];
      if (text[length] == text[i]) ++length;
      stop.border[i] = length;
    }
    stop.text = std::move(text);
    stops_.push_back(std::move(stop));
  }
}

void StopMatcher::Advance(Stop& stop, char byte) {
  while (stop.progress > 0 && stop.text[stop.progress] != byte) {
    stop.progress = stop.border[stop.progress - 1];
  }
  if (stop.text[stop.progress] == byte) ++stop.progress;
}

StopMatcher::Result StopMatcher::Push(absl::string_view text) {
  if (matched_) return {};
  Result result;
  result.text = std::exchange(held_, {});
  for (const char byte : text) {
    result.text.push_back(byte);
    const Stop* found = nullptr;
    for (Stop& stop : stops_) {
      Advance(stop, byte);
      const bool complete = stop.progress == stop.text.size();
      if (complete && (found == nullptr || stop.text.size() > found->text.size())) found = &stop;
    }
    if (found == nullptr) continue;
    matched_ = true;
    if (!include_stop_in_output_) result.text.resize(result.text.size() - found->text.size());
    result.stop = found->text;
    return result;
  }
  size_t hold = 0;
  for (const Stop& stop : stops_) hold = std::max(hold, stop.progress);
  held_ = result.text.substr(result.text.size() - hold);
  result.text.resize(result.text.size() - hold);
  return result;
}

std::string StopMatcher::Finish() { return std::exchange(held_, {}); }

}  // namespace baton
