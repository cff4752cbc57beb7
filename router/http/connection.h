// One connection of HttpServer: its requests, one after another, and their answers.
//
// A client that leaves closes its socket, and so does one that has only no more to send: both look
// the same until something is written, which resets the connection of the former. So when a client
// ends its direction while it waits, it gets bytes without a meaning: a comment line in a stream of
// events, "100 Continue" before another answer. HTTP/1.0 has nothing of the kind; there a client
// that has left is noticed when it is answered, or at once if its connection was reset.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/cord.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "boost/asio/io_context.hpp"
#include "boost/asio/posix/stream_descriptor.hpp"
#include "boost/asio/steady_timer.hpp"
#include "common/base/token_bucket.h"
#include "common/net/unread_bytes.h"
#include "router/http/byte_stream.h"
#include "router/http/http_server.h"
#include "router/http/io_thread.h"
#include "router/http/output_queue.h"
#include "router/http/request_parser.h"

namespace baton {

// Belongs to one I/O thread, which calls everything but closed(); only references to it may be
// elsewhere.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  // What connections share; outlives their Close.
  struct Surroundings {
    const HttpServer::Options& options;
    const HttpServer::Handler& handler;
    boost::asio::io_context& io;
    std::shared_ptr<IoMailbox> mailbox;
    std::string& scratch;     // into which connections read, one at a time
    TokenBucket& long_input;  // the bytes of long requests that they may read
    // With TLS: who the client at an address is; an error: who may not connect. Called when the
    // handshake is done, and before each request.
    std::function<absl::StatusOr<std::optional<Peer>>(SSL& session, const std::string& address)>
        identify{};
    std::function<void(Connection& connection)> closed{};
    std::atomic<size_t>& event_streams;       // how many are open
    std::atomic<size_t>& unfinished_answers;  // how many are waited for or written
    UnreadBytes& unread_bytes;                // unread bytes of long answers
    bool draining = false;                    // it serves one request
  };

  // Owns `descriptor`, which does not block. `address` as HttpClient's. TLS if `session` is not
  // null.
  Connection(int descriptor, std::string address, SslSession session,
             const Surroundings& surroundings);

  void Start();
  // Closes the connection when the answer it is giving has ended, or at once if it gives none.
  void Drain();
  // The exchange that is open learns that its client is gone.
  void Close();
  // Returns whether Close was called. Thread-safe.
  bool closed() const { return closed_.load(); }

  // The following are HttpExchange's functions, of that exchange.
  void OnGone(uint64_t exchange, std::function<void()> gone);
  void CountFor(uint64_t exchange, const std::string& tenant);
  void Respond(uint64_t exchange, HttpResponse response);
  void BeginEvents(uint64_t exchange, const std::vector<HttpHeader>& headers);
  void Send(uint64_t exchange, std::string bytes, OutputQueue::Written written);
  void SendLong(uint64_t exchange, absl::Cord bytes, OutputQueue::Written written);
  void EndEvents(uint64_t exchange);
  void Break(uint64_t exchange);
  // Handles an exchange without references. `request` was its request.
  void Abandon(uint64_t exchange, const HttpRequest& request);

 private:
  enum class Phase {
    kHandshake,
    kIdle,       // between two requests
    kHead,       // a request has begun
    kBody,       // `check` has accepted the head
    kWaiting,    // for an answer
    kEvents,     // the answer is a stream of events
    kEnding,     // the rest of an answer is written
    kLingering,  // so that the client can read the answer, what it still sends is thrown away
    kClosed,
  };

  bool InExchange() const { return phase_ == Phase::kWaiting || phase_ == Phase::kEvents; }
  // Whether the exchange is the one that is answered now.
  bool IsOpen(uint64_t exchange) const { return exchange == exchange_ && InExchange(); }

  // Reading.
  void WatchInput();
  void OnInput();
  void GoOnWithHandshake();
  void Read();
  // Returns how many bytes may be read at once.
  size_t ReadableBytes() const;
  // Returns how long the rest of a long request is left unread.
  absl::Duration PauseOfInput() const;
  void OnInputEnd();
  // A client that has ended its direction is watched for a reset.
  void WatchErrors();

  // Requests. Reads what is there, up to a whole request.
  void Advance();
  // False when the request is answered already.
  bool TakeHead();
  // Asks for room for the body that follows.
  void BeginBody();
  // Counts the bytes of the body that have arrived, and moves the deadline for the next ones.
  void CountBody();
  void MakeRoom(size_t bytes);
  // Hands the request over with its body, or with the status that says why there is no room for it.
  void TakeRequest(const absl::Status& status = absl::OkStatus());
  void Refuse(int status, const std::string& message);
  // Gives the request its entry of the access log, unless it has one.
  void BeginEntry(HttpRequest& request);
  // The request has ended. `whole`: its client has the whole answer.
  void EndEntry(bool whole);
  // The origins whose pages may read the answer to `request`.
  const std::vector<std::string>& OriginsOf(const HttpRequest& request) const;

  // Answers.
  void WriteAnswer(HttpResponse response);
  // Records that the answer to a request begins.
  void CountAnswer(int status) const;
  // An answer is waited for, or written.
  void BeginUnfinished();
  void EndUnfinished();
  std::string HeadText(int status, std::vector<HttpHeader> headers,
                       std::optional<size_t> content_length) const;
  void Write(std::string bytes, OutputQueue::Written written);
  // Counts memory whose bytes the client must read. Returns false if the unread bytes of all, or of
  // the tenant, would be too many.
  bool CountUnread(size_t bytes);
  // Sends events that take so much memory.
  template <typename Bytes>
  void SendEvents(uint64_t exchange, Bytes bytes, size_t memory_bytes,
                  OutputQueue::Written written);
  // Appends the next piece of an answer that is made while it is read.
  void AppendMore();
  // Appends a part of a body whose length was not announced.
  template <typename Bytes>
  void AppendPart(Bytes bytes, OutputQueue::Written written);
  void Flush();
  void WatchOutput();
  void FinishAnswer();
  void AwaitRequest(absl::Duration timeout);
  void Linger();

  // Time.
  void SetDeadline(absl::Duration timeout);
  void ForgetDeadline() { deadline_ = absl::InfiniteFuture(); }
  void ArmTimer();
  void OnTime();
  void OnDeadline();

  const Surroundings surroundings_;
  HttpClient client_;
  // All of the system's and Asio's end with Close, since exchanges may keep the rest for long.
  std::optional<boost::asio::posix::stream_descriptor> descriptor_;
  std::optional<boost::asio::steady_timer> timer_;
  std::optional<boost::asio::steady_timer> pause_;  // before more of a long request is read
  std::optional<ByteStream> stream_;

  Phase phase_ = Phase::kHandshake;
  std::atomic<bool> closed_ = false;
  bool draining_;
  bool input_ended_ = false;
  bool watches_input_ = false;
  bool watches_errors_ = false;
  bool watches_output_ = false;
  std::string input_;         // what was read and not parsed
  size_t request_bytes_ = 0;  // bytes that were read since the last answer
  std::unique_ptr<RequestParser> parser_;
  BodyRoom room_;                // for the arriving request; empty: nothing is counted
  uint64_t counted_bytes_ = 0;   // bytes of its body that `room_` has counted
  uint64_t step_end_bytes_ = 0;  // length that its body must have at the deadline
  OutputQueue output_;
  std::function<std::string()> more_;  // makes the rest of the answer; null: nothing follows
  UnreadBytes::Part unread_;           // unread bytes of the answer, charged to the tenant

  absl::Time deadline_ = absl::InfiniteFuture();   // for the phase or of the client's reading
  absl::Time next_ping_ = absl::InfiniteFuture();  // in kEvents
  absl::Time timer_due_ = absl::InfiniteFuture();  // when the timer ends; never: it does not run

  // State of the request that is being received or answered:
  uint64_t exchange_ = 0;
  std::string path_;
  std::optional<absl::Time> head_at_;  // when its headers were there
  std::shared_ptr<AccessEntry> access_;
  bool exchange_gone_ = false;  // it was open when the connection was closed
  std::function<void()> gone_;
  RequestParser::Framing framing_;
  std::vector<HttpHeader> common_headers_;  // headers of every answer
  bool is_head_ = false;                    // a HEAD request: the answer has no body
  bool keep_alive_ = false;                 // whether another request may follow
  bool breaks_ = false;                     // the answer has no end
  bool is_unfinished_ = false;
  bool is_event_stream_ = false;
};

}  // namespace baton
