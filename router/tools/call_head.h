// The beginnings and ends of calls in the text of a model. All functions are pure, and what they say
// of a text, unless it is kMore, is what they say of every longer one.
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
  size_t begin = 0;  // of the arguments' object; with `is_whole`, of the call's own
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
// A call's whole object; nullopt if it is none. The arguments are as they stand there, where they
// are an object or, in quotes, the text of one.
std::optional<WholeCall> ReadWholeCall(absl::string_view object);

}  // namespace baton
