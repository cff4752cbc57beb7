// The bytes of answers (RFC 9112). Pure functions; thread-safe.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "router/http/message.h"

namespace baton {

// Asks for a body that the client holds back. A client must be able to read it at any time before
// an answer, and without effect (RFC 9110, section 15.2.1).
inline constexpr absl::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
// A comment line of an event stream, which readers of events skip.
inline constexpr absl::string_view kPing = ": \n\n";
inline constexpr absl::string_view kLastChunk = "0\r\n\r\n";

// What stands before an answer's body.
struct AnswerHead {
  int status = 200;
  std::vector<HttpHeader> headers{};
  bool http_1_1 = true;    // what the client speaks
  bool keep_alive = true;  // whether it may send another request
  absl::Time date{};
  // The body's bytes; without it the body comes in chunks, or ends with the connection where the
  // client speaks HTTP/1.0.
  std::optional<size_t> content_length{};
};
// Bytes that a header must not have are written as spaces.
std::string AnswerHeadText(const AnswerHead& head);

// Returns the text before a chunk of `bytes` bytes; a line's end follows the chunk. REQUIRES: the
// chunk is not empty.
std::string ChunkHead(size_t bytes);

}  // namespace baton
