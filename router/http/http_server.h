// Serves HTTP/1.1 and HTTP/1.0 (RFC 9110, 9112): thousands of connections on a few threads.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "common/certificates/credentials.h"
#include "common/net/acceptor.h"
#include "common/rpc/limits.h"
#include "router/http/exchange.h"
#include "router/http/message.h"

namespace baton {

// Listens from Listen on, answers from Start on. What a client sends is bounded in bytes and time
// before a handler sees it: a request that is malformed, too large or too slow gets 400, 408, 413,
// 417, 431, 501, 503 or 505 as `error_answer` has it, and no other code notices. Requests of one
// connection are answered in their order, the next is read when the answer before it has ended. The
// bytes of a body are counted as they arrive (Handler::room).
class HttpServer {
 public:
  struct Options {
    Acceptor::Options acceptor{};  // as the gRPC port's
    int threads = 1;
    size_t max_header_bytes = size_t{16} << 10;
    size_t max_body_bytes = size_t{4} << 20;
    absl::Duration handshake_timeout = kHandshakeTimeout;  // for that of TLS
    absl::Duration header_timeout = absl::Seconds(10);     // for a request line with headers
    // Time for each body_step_bytes of a body, or for its rest. Slower bodies are refused, so that
    // half-sent ones do not hold memory. 64 KiB in 5 s are 105 kbit/s, and 4 MiB may take 5
    // minutes.
    absl::Duration body_timeout = absl::Seconds(5);
    size_t body_step_bytes = size_t{64} << 10;
    // What comes of a request beyond its first long_input_bytes is read, or thrown away, at this
    // rate by each I/O thread, so that many long bodies leave it and its CPU to others. A body of
    // 4 MiB that is alone takes 60 ms.
    size_t long_input_bytes = size_t{256} << 10;
    double long_input_bytes_per_second = 64 << 20;
    absl::Duration idle_timeout = absl::Seconds(75);   // for a connection between two requests
    absl::Duration stall_timeout = absl::Seconds(60);  // for a client that reads nothing
    // Unread bytes of all answers and events of more than 64 KiB together, of which each tenant may
    // have a part (UnreadBytes). One more such answer is replaced by 503, and one more such event
    // breaks its stream.
    size_t max_unread_bytes = size_t{64} << 20;
    absl::Duration ping_interval = absl::Seconds(1);  // for a stream without events
    // Time for a client that still sends after the last answer to read that answer.
    absl::Duration linger_timeout = absl::Seconds(2);
    // Origins whose pages may read the answers ("https://example.org", or "*"); none: CORS is off.
    std::vector<std::string> cors_origins{};
  };
  struct Handler {
    // Called when a request's headers are there, on an I/O thread; the body is empty yet. An answer
    // ends the request before its body is read.
    std::function<std::optional<HttpResponse>(const HttpRequest& head)> check;
    // Called on an I/O thread after `check` has accepted the head of a request with a body. Returns
    // the counter of the request's bytes, or nothing if the body is not needed and is thrown away
    // as it arrives. May be null: bodies are not counted.
    std::function<std::optional<BodyRoom>(const HttpRequest& head)> room{};
    // Called when the whole request is there, or when there is no room for it, on an I/O thread.
    // Must not block.
    std::function<void(std::shared_ptr<HttpExchange> exchange, HttpBody body)> handle;
    // The answer if the server itself reports an error, such as 413 and "the body ...". The
    // request has the parts that could be read.
    std::function<HttpResponse(const HttpRequest& request, int status, const std::string& message)>
        error_answer;
    // Called when an answer begins, on an I/O thread, with the requested path ("" if it could not
    // be read) and the time since the request's headers were complete. May be null.
    std::function<void(const std::string& path, int status,
                       std::optional<absl::Duration> since_head)>
        answered{};
    // Makes the entry of the access log for a request to this path ("" where it could not be read),
    // on an I/O thread, before `check`; or null. May be null: requests have no entries.
    std::function<std::shared_ptr<AccessEntry>(const std::string& path)> entry{};
    // Whether pages of Options::cors_origins may read the answers to this path, on an I/O thread.
    // May be null: they may read all.
    std::function<bool(const std::string& path)> shares{};
  };

  // `flag` and `address` (host:port, port 0: a free one) as Acceptor's. With certificates in
  // `credentials` connections are TLS: who shows a certificate must show one that counts, and of a
  // role that may call a router; `certificate_optional`: others may connect too.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Listen(absl::string_view flag,
                                                            const std::string& address,
                                                            const Credentials& credentials,
                                                            bool certificate_optional,
                                                            const Options& options);
  // Closes it. Exchanges that are still held do nothing from then on.
  ~HttpServer();

  // REQUIRES: once.
  void Start(Handler handler);
  // Closes all connections; handlers are not called any more when it returns. Tasks of exchanges
  // that are still held go on, so that a thread that works on an answer learns of its end. May be
  // called again.
  void Close();
  // Closes each connection when the answer it is giving has ended; one that is made later serves
  // one request.
  void Drain();

  const std::string& address() const;  // the bound host:port
  size_t connections() const;          // open ones
  size_t event_streams() const;        // answers that are streams of events, and have not ended
  // Answers that are waited for or not yet all written.
  size_t unfinished_answers() const;

 private:
  struct Rep;
  explicit HttpServer(std::unique_ptr<Rep> rep);
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
