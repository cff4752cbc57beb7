// Whether the account that a worker gives of its part of a request can be true. Pure functions.
#pragma once

#include <optional>
#include <string>

#include "baton/internal/v1/decode.pb.h"
#include "baton/internal/v1/prefill.pb.h"

namespace baton {

// What is wrong with the account in the message, by the name of its field; nothing if the message
// has none, or one that may be true: durations of 0 to a day, counts of bytes below 2^50, at most
// 256 spans of each kind that end behind their begin, and a KV type that is known. What passes takes
// little memory, whoever sent it.
std::optional<std::string> AccountFault(const internal::v1::PrefillResponse& message);
std::optional<std::string> AccountFault(const internal::v1::DecodeResponse& message);

}  // namespace baton
