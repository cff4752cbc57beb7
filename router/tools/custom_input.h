// The text that a call gives to a custom tool.
#pragma once

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace baton {

// Returns the arguments of a call, JSON, that gives a custom tool this text: {"input": "..."}.
std::string CustomArguments(const std::string& input);

// Takes the text out of such arguments while the model writes them. Arguments of another form are a
// text themselves, unless they turn out to be an object with a string `input`. The text is the same
// however the arguments are cut. Not thread-safe.
class CustomInput {
 public:
  // Returns what is certain of the text after more of the arguments.
  std::string Add(absl::string_view arguments);
  // Returns the rest of the text when the call has ended.
  std::string Finish();

 private:
  enum class State {
    kHead,   // before the text
    kText,   // within the text
    kEnded,  // behind the text
    kOther,  // the arguments have another form
  };

  // Reads the head from `held_` and returns what is behind it.
  std::string TakeHead();
  void Push(char byte, std::string& text);
  void EndEscape(std::string& text);
  // Appends a UTF-16 code unit of an escape.
  void PushUnit(uint32_t unit, std::string& text);
  // Appends a replacement for the first half of a pair whose second half has not come.
  void EndPair(std::string& text);

  State state_ = State::kHead;
  std::string held_;        // all arguments so far, in kHead and kOther
  std::string escape_;      // so far; empty: none has begun
  uint32_t high_half_ = 0;  // first half of a UTF-16 pair; 0: none
};

}  // namespace baton
