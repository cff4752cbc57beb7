// Whether text may be sent: protobuf strings are UTF-8.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace baton {

// INVALID_ARGUMENT "is not UTF-8: byte 3 is 0xff", counted from 1, where `text` is not.
absl::Status CheckUtf8(absl::string_view text);

}  // namespace baton
