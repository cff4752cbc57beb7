// An HTTP request and an answer, as handlers see them. Plain values.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"

#include "common/access/peer.h"

namespace baton {

class AccessEntry;

struct HttpHeader {
  std::string name;  // in a request in lower case; in an answer as it is to be written
  std::string value;
  friend bool operator==(const HttpHeader&, const HttpHeader&) = default;
};

// Who made a connection.
struct HttpClient {
  std::string address;  // as gRPC writes it, such as "ipv4:127.0.0.1:50000"
  bool encrypted = false;
  // Who the client's certificate says it is, if one was shown and verified.
  std::optional<Peer> certificate{};
};

// A request without its body (HttpBody in exchange.h), which is freed earlier.
struct HttpRequest {
  std::string method;                 // as sent, such as "POST"
  std::string path;                   // path of the target, percent-decoded
  std::string query{};                // query of the target, as sent, without the "?"
  std::vector<HttpHeader> headers{};  // in the order in which they came
  HttpClient client{};
  std::shared_ptr<AccessEntry> access{};  // entry of the access log; null: no line is written

  // The values of a header, whose name is given in lower case.
  std::vector<std::string> HeaderValues(absl::string_view name) const;
  // The first of them, or "".
  absl::string_view Header(absl::string_view name) const;
  // Returns about how much memory the request takes.
  size_t MemoryBytes() const;
};

struct HttpResponse {
  int status = 200;
  // Beside Content-Length, Date and Connection, which the server writes by itself.
  std::vector<HttpHeader> headers{};
  std::string body{};
  absl::Cord rest{};  // follows `body`; may share its parts with other answers
  // For an answer that would take much memory: returns the next piece that follows `rest`, or an
  // empty string at the end. Called on the connection's thread each time that the client has taken
  // the piece before; destroyed at the end, or when the client is gone. Null: nothing follows.
  std::function<std::string()> more{};
  size_t more_bytes = 0;  // memory that `more` holds
};

// The same with a body of Content-Type: application/json.
HttpResponse JsonResponse(int status, std::string body);

// Empties `text` and gives its memory back. To assign an empty string would keep the memory.
inline void Free(std::string& text) { std::string().swap(text); }

}  // namespace baton
