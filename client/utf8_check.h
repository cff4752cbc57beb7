// Checks whether text can be sent: protobuf strings are UTF-8.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace baton {

// Returns OK if `text` is UTF-8, else INVALID_ARGUMENT such as "is not UTF-8: byte 3 is 0xff",
// where bytes count from 1.
absl::Status CheckUtf8(absl::string_view text);

}  // namespace baton
