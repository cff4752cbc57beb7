// Streams text to a client: whole UTF-8 characters only, cut at the first stop string, nothing past it ever leaked.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace baton {

// Turns a stream of token bytes into a stream of whole UTF-8 characters. What is invalid becomes U+FFFD, in the same
// places as in a decoding of the whole sequence at once. One stream's; not thread-safe.
class Utf8Stream {
 public:
  // The characters that `bytes` completes.
  std::string Push(absl::string_view bytes);
  // What is left at the end: U+FFFD for an unfinished character.
  std::string Finish();

 private:
  std::string pending_;  // at most 3 bytes
};

// Finds the first stop string in a stream of text and holds back whatever may be its beginning. One stream's; not
// thread-safe. Among stops that end at the same place, the one that starts first wins; then the earlier in the list.
class StopMatcher {
 public:
  StopMatcher(std::vector<std::string> stops, bool include_stop_in_output);

  struct Result {
    std::string text;                 // safe to deliver
    std::optional<std::string> stop;  // matched: the text is complete, later input is ignored
  };
  Result Push(absl::string_view text);
  // The end without a match: what was held back.
  std::string Finish();
  bool matched() const { return matched_; }

 private:
  std::vector<std::string> stops_;
  bool include_stop_in_output_;
  bool matched_ = false;
  std::string held_;  // shorter than the longest stop
};

}  // namespace baton
