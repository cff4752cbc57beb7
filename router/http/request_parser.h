// Reads requests of HTTP/1.1 and 1.0 from a connection's bytes (RFC 9112), strictly: what another
// server could read otherwise is refused, since a proxy before this one may be that server.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "router/http/message.h"

namespace baton {

// Reads one request. Not thread-safe.
class RequestParser {
 public:
  struct Limits {
    size_t max_header_bytes = 0;  // bound of the request line with the headers, and of trailers
    size_t max_body_bytes = 0;
  };
  enum class Found {
    kNothingYet,  // more bytes are needed
    kHead,        // head() is complete; the body comes next
    kRequest,     // all of it
    kError,       // refusal() has the error; later bytes cannot be read
  };
  // How the connection goes on, and what the client waits for.
  struct Framing {
    bool http_1_1 = false;
    bool keep_alive = false;        // the client can send another request on this connection
    bool expects_continue = false;  // the client waits for "100 Continue" before it sends the body
    bool has_body = false;
  };
  struct Refusal {
    int status = 400;
    std::string message{};
  };

  explicit RequestParser(const Limits& limits) : limits_(limits) {}

  // Removes what it has read from the front of `input`; what it leaves must stand there again next
  // time. kHead comes once before kRequest. REQUIRES: neither kRequest nor kError was returned.
  Found Parse(std::string& input);

  // Whether any byte of a request has been seen.
  bool begun() const { return begun_; }
  // REQUIRES: kHead was returned.
  HttpRequest& request() { return request_; }
  // The bytes of the body so far, its transfer encoding undone. Whole with kRequest.
  std::string& body() { return body_; }
  // Frees the body. The rest of it is still parsed, and thrown away.
  void DropBody();
  // Bytes of the body that were read so far, thrown away or not.
  uint64_t body_bytes() const { return body_bytes_; }
  // Bytes of the body, or of its current chunk, that have not arrived yet. 0: unknown.
  uint64_t awaited_bytes() const { return left_; }
  const Framing& framing() const { return framing_; }
  // REQUIRES: kError was returned.
  const Refusal& refusal() const { return refusal_; }

 private:
  enum class Next { kHead, kSizedBody, kChunkSize, kChunkData, kChunkEnd, kTrailers, kEnd };

  Found ParseHead(std::string& input);
  // Those before a request line.
  bool SkipEmptyLines(std::string& input);
  // Finds the end of the lines in `input` up to the empty one, whose bytes are checked on the way.
  // nullopt: it has not come, or is refused.
  std::optional<size_t> FindHeadEnd(absl::string_view input);
  bool ReadHead(absl::string_view head);
  bool ReadRequestLine(absl::string_view line);
  bool ReadHeader(absl::string_view line);
  // Judges the headers together.
  bool CheckHeaders();
  // Refuses a second header of those that decide who calls, or what the body is.
  bool CheckOnlyOnce();
  // Checks the header Host, and puts the authority of the target in its place.
  bool CheckHost();
  bool CheckLength();
  bool CheckConnection();
  Found ParseBody(std::string& input);
  // Each takes what it can from the front of `rest`; false when more bytes are needed, or refused.
  bool TakeSized(absl::string_view& rest);
  bool TakeChunkSize(absl::string_view& rest);
  bool TakeChunkEnd(absl::string_view& rest);
  bool TakeTrailers(absl::string_view& rest);
  bool Refuse(int status, absl::string_view message);

  const Limits limits_;
  Next next_ = Next::kHead;
  bool begun_ = false;
  int empty_lines_ = 0;  // before the request line
  size_t scanned_ = 0;   // bytes of the head that were looked at
  uint64_t left_ = 0;    // bytes of the body, or of the chunk, that are to come
  size_t trailer_bytes_ = 0;
  bool refused_ = false;
  HttpRequest request_;
  std::string authority_;  // the target's authority; empty: it has none
  std::string body_;
  bool keeps_body_ = true;
  uint64_t body_bytes_ = 0;
  Framing framing_;
  Refusal refusal_;
};

}  // namespace baton
