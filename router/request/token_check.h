// Whether a token that a worker sends can be the next one of its choice. Pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "baton/internal/v1/common.pb.h"

namespace baton {

// The state of a choice when one of its two workers sends a token for it. A view: it borrows the
// log.
struct TokenPlace {
  const std::vector<internal::v1::OutputToken>& log;  // the choice's accepted tokens
  size_t next_index = 0;                              // output index that this worker sends next
  bool complete = false;                              // this worker has sent all its tokens already
  bool ended = false;                                 // the choice has ended
  bool ended_by_stop_string = false;  // the router ended it; workers learn of it later
  size_t vocab_size = 0;
  size_t max_tokens = 0;  // most tokens that the choice may have
};

// Returns the fault of `token`, in words for the client; nullopt if it is the next token of the
// log, or a copy of one in the log. A token behind a stop string is no fault either.
std::optional<std::string> FaultOf(const internal::v1::OutputToken& token, const TokenPlace& place);

}  // namespace baton
