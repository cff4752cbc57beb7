// Finds the beginnings and ends of calls in the text of a model. All functions are pure. An answer
// for a text other than kMore is also the answer for every longer text.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "router/tools/text_reader.h"

namespace baton {

struct CallHead {
  Fit fit = Fit::kNo;
  // With kYes. The call has to be read whole before anything of it is known: its arguments come
  // before its name, or are none, or a string.
  bool is_whole = false;
  std::string name{};
  size_t begin = 0;  // offset of the arguments' object; with `is_whole`, of the call's object
};

// A call as an object: {"name": ..., "arguments": {...}}, or "parameters".
CallHead ReadObjectHead(absl::string_view text);
// name[ARGS]{...}, or name[CALL_ID]id[ARGS]{...}.
CallHead ReadNamedHead(absl::string_view text);

// The rest of a call's object behind its arguments: members that are strings, and "}". `end`: bytes
// with kYes.
Fit ReadObjectRest(absl::string_view text, size_t& end);
// The tokens, with spaces before each.
Fit ReadTokens(absl::string_view text, const std::vector<std::string>& tokens, size_t& end);

struct WholeCall {
  std::string name;
  std::string arguments;
};
// A call's whole object; nullopt if it is none. The arguments are as they stand there, if they
// are an object or, in quotes, the text of one.
std::optional<WholeCall> ReadWholeCall(absl::string_view object);

}  // namespace baton
