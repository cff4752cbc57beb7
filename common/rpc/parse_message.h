// The parser of messages from outside.
#pragma once

#include "absl/status/status.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

namespace baton {

// Parses `bytes`, slice by slice, into `message`. INVALID_ARGUMENT if the bytes cannot be parsed or
// have more than kMaxMessageParts (limits.h) strings and messages. The error names the field at
// fault, if there is one, as in "chat.messages[2].content: must be UTF-8"; `message` is then
// unspecified. Thread-safe.
absl::Status ParseMessage(grpc::ByteBuffer& bytes, google::protobuf::Message& message);

}  // namespace baton
