// Messages from outside, from bytes.
#pragma once

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

namespace baton {

// Parses `bytes`, slice by slice, into `message`. What cannot be parsed, or has more than
// kMaxMessageParts (limits.h), is INVALID_ARGUMENT and names the field at fault, as in
// "chat.messages[2].content: must be UTF-8", where there is one; `message` is then of no use.
// Thread-safe.
absl::Status ParseMessage(grpc::ByteBuffer& bytes, google::protobuf::Message& message);

}  // namespace baton
