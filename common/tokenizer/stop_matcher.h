// A matcher that ends a stream of text at the first stop string, so that nothing past it is
// delivered.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "common/tokenizer/utf8_stream.h"

namespace baton {

// Finds the first stop string in a stream of text and holds back text that may begin one. The first
// stop string is the one that ends first; of several with the same end, the one that starts first;
// then the one that stands first in the list. An empty stop string never matches. Takes linear time
// for each stop string. Each stream needs a matcher of its own. Not thread-safe.
class StopMatcher {
 public:
  StopMatcher(std::vector<std::string> stops, bool include_stop_in_output);

  struct Result {
    std::string text;                 // text that may be delivered
    std::optional<std::string> stop;  // the stop string that matched; later input is ignored
  };
  // Takes the next text of the stream.
  Result Push(absl::string_view text);
  // Takes the next text of the stream, in which no stop string may end, though one may begin in it.
  // Returns the text that may be delivered. REQUIRES: !matched().
  std::string Pass(absl::string_view text);
  // Ends the stream and returns the text that was held back, empty after a match.
  std::string Finish();
  bool matched() const { return matched_; }

 private:
  // A Knuth-Morris-Pratt automaton, which takes amortised constant time for each byte.
  struct Stop {
    std::string text;
    std::vector<size_t> border;  // [i]: size of the longest proper prefix that ends text[0..i]
    size_t progress = 0;         // size of the longest proper prefix that ends the stream so far
  };
  // The stop string that `byte` completes, the longest of several; null if it completes none.
  const Stop* Advance(char byte);
  // Returns `text` without the end that may begin a stop string, and holds that end back.
  std::string HoldBack(std::string text);

  std::vector<Stop> stops_;
  bool include_stop_in_output_;
  bool matched_ = false;
  // The end of the stream that may begin a stop string: shorter than the longest stop string.
  std::string held_;
};

}  // namespace baton
