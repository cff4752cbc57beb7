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

const StopMatcher::Stop* StopMatcher::Advance(char byte) {
  const Stop* found = nullptr;
  for (Stop& stop : stops_) {
    while (stop.progress > 0 && stop.text[stop.progress] != byte) {
      stop.progress = stop.border[stop.progress - 1];
    }
    if (stop.text[stop.progress] == byte) ++stop.progress;
    if (stop.progress < stop.text.size()) continue;
    stop.progress = stop.border.back();
    if (found == nullptr || stop.text.size() > found->text.size()) found = &stop;
  }
  return found;
}

std::string StopMatcher::HoldBack(std::string text) {
  size_t hold = 0;
  for (const Stop& stop : stops_) hold = std::max(hold, stop.progress);
  held_ = text.substr(text.size() - hold);
  text.resize(text.size() - hold);
  return text;
}

StopMatcher::Result StopMatcher::Push(absl::string_view text) {
  if (matched_) return {};
  Result result;
  result.text = std::exchange(held_, {});
  for (const char byte : text) {
    result.text.push_back(byte);
    const Stop* found = Advance(byte);
    if (found == nullptr) continue;
    matched_ = true;
    if (!include_stop_in_output_) result.text.resize(result.text.size() - found->text.size());
    result.stop = found->text;
    return result;
  }
  result.text = HoldBack(std::move(result.text));
  return result;
}

std::string StopMatcher::Pass(absl::string_view text) {
  for (const char byte : text) Advance(byte);
  return HoldBack(std::exchange(held_, {}) + std::string(text));
}

std::string StopMatcher::Finish() { return std::exchange(held_, {}); }

}  // namespace baton
