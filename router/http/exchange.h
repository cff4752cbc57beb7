// One HTTP request and the way to answer it.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/strings/cord.h"

#include "router/http/message.h"

namespace baton {

// Counts `bytes` more bytes of one request as they arrive, and gives all of them back when it is
// destroyed. An error, such as RESOURCE_EXHAUSTED, ends the request. Called by one thread at a
// time.
using BodyRoom = absl::AnyInvocable<absl::Status(size_t bytes)>;

// The body of a request. It is no part of its exchange, so that holding an exchange for long, as a
// refusal does that is sent later, holds no body.
struct HttpBody {
  BodyRoom room{};      // counts `bytes`; empty: nothing does
  std::string bytes{};  // whole, its transfer encoding undone
  // Why there was no room for the whole body. If not OK, `bytes` is empty, and the connection ends
  // after the answer.
  absl::Status status{};

  // Gives the memory back, and then the room.
  void Drop() {
    Free(bytes);
    room = nullptr;
  }
};

// Thread-safe, and shared by the threads that work on the answer. If the last reference is dropped
// and no answer was begun, the client receives 500. Two implementations: a connection's
// (served_exchange.h) and the tests'. Functions that are given to it are called on an I/O thread,
// or from inside the call that gives them, and must not block.
class HttpExchange {
 public:
  virtual ~HttpExchange() = default;

  virtual const HttpRequest& request() const = 0;

  // Runs `task` later on the exchange's own I/O thread; tasks run in their order, one at a time.
  virtual void Post(std::function<void()> task) = 0;

  // `gone` is called once, when the client has left before the answer's end: its connection was
  // reset, or closed in both directions, or took nothing of an answer for too long. A client that
  // has closed its own direction alone has not left. Called at once where that has happened.
  // REQUIRES: at most once.
  virtual void OnGone(std::function<void()> gone) = 0;

  // Returns whether the client has left, so that no answer is needed. Work on a request that
  // waits begins with this question.
  virtual bool gone() const = 0;

  // Counts the bytes of the answer that the client leaves unread as `tenant`'s (UnreadBytes).
  // Without it they are the anonymous tenant's. REQUIRES: before the answer.
  virtual void CountFor(const std::string& tenant) = 0;

  // The whole answer. REQUIRES: once, and not with BeginEvents.
  virtual void Respond(HttpResponse response) = 0;

  // Sends status 200 and the headers of a stream of events (text/event-stream) at once, and these.
  // While it then writes nothing for a second, the client gets a comment line. REQUIRES: once.
  virtual void BeginEvents(std::vector<HttpHeader> headers) = 0;
  // Sends `bytes`, which are whole events, after all that were sent before. `written` is called at
  // the end: true once the system has taken them, false if the client is gone or the connection
  // broken. May be null. REQUIRES: between BeginEvents and EndEvents.
  virtual void Send(std::string bytes, std::function<void(bool ok)> written) = 0;
  // The same for long events, parts of which may be shared: at most 64 KiB is copied at a time.
  virtual void SendLong(absl::Cord bytes, std::function<void(bool ok)> written) = 0;
  // Ends the stream after all that was sent. The connection may serve further requests.
  virtual void EndEvents() = 0;
  // Breaks the connection: the client sees an answer without an end, what is not written yet fails,
  // and nothing that follows has an effect. `gone` is not called.
  virtual void Break() = 0;
};

}  // namespace baton
