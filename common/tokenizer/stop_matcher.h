// Cuts a stream of text at the first stop string; nothing past it ever leaks.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "common/tokenizer/utf8_stream.h"

namespace baton {

// Finds the first stop string in a stream of text and holds back whatever may be its beginning.
// First is the one that ends first; among stops that end at the same place, the one that starts
// first wins; then the earlier in the list. An empty stop never matches. Linear in the text for
// each stop. One stream's; not thread-safe.
class StopMatcher {
 public:
  StopMatcher(std::vector<std::string> stops, bool include_stop_in_output);

  struct Result {
    std::string text;                 // safe to deliver
    std::optional<std::string> stop;  // matched: the text is complete, later input is ignored
  };
  Result Push(absl::string_view text);
  // Text in which no stop ends, though one may begin there: what is safe to deliver. REQUIRES:
  // !matched().
  std::string Pass(absl::string_view text);
  // The end without a match: what was held back.
  std::string Finish();
  bool matched() const { return matched_; }

 private:
  // A Knuth-Morris-Pratt automaton: one step for each byte of text, amortised.
  struct Stop {
    std::string text;
    std::vector<size_t> border;  // [i]: longest proper prefix of text that ends text[0..i]
    size_t progress = 0;         // longest prefix of text, but not all, that ends the stream so far
  };
  // The stop that `byte` completes, the longest of several; null where it completes none.
  const Stop* Advance(char byte);
  // `text` without its end that may be the beginning of a stop, which is held back.
  std::string HoldBack(std::string text);

  std::vector<Stop> stops_;
  bool include_stop_in_output_;
  bool matched_ = false;
  std::string
      held_;  // the longest beginning of a stop that ends the stream: shorter than the longest stop
};

}  // namespace baton
