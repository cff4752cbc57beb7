// Whether the account that a worker gives of its part of a request can be true. Pure functions.
#pragma once

#include <optional>
#include <string>

#include "baton/internal/v1/decode.pb.h"
#include "baton/internal/v1/prefill.pb.h"

namespace baton {

// Returns the fault of the account in the message, with the name of its field; nullopt if the
// message has no account or a plausible one: durations of 0 to a day, counts of bytes below 2^50,
// at most 256 spans of each kind that end after their begin, and a known KV type. An accepted
// account takes little memory, even if the worker is malicious.
std::optional<std::string> AccountFault(const internal::v1::PrefillResponse& message);
std::optional<std::string> AccountFault(const internal::v1::DecodeResponse& message);

}  // namespace baton
