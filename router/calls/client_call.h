// One client's Generate stream: an outbox with a bound in front of gRPC's one write at a time.
#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "baton/v1/generation.pb.h"
#include "router/calls/event_loop.h"

namespace baton {

// Limits of one client's outgoing queue, in bytes of memory and in tokens. A client counts as
// behind while either high mark is exceeded, and as caught up once both low marks are met. gRPC
// keeps a copy of the message that it is writing. With kMaxJoinedBytes the total stays below 64
// KiB, except for a prompt's log probabilities, which arrive in one message. Tokens have their own
// limit because the router keeps more than a token's few bytes.
inline constexpr size_t kOutboxHighBytes = 32 << 10;
inline constexpr size_t kOutboxLowBytes = 8 << 10;
inline constexpr size_t kOutboxHighTokens = 256;
inline constexpr size_t kOutboxLowTokens = 64;
inline constexpr size_t kMaxJoinedBytes = 8 << 10;  // a larger message is not extended

class ClientCall;

// The server's end of a Generate stream, as raw operations. Three implementations: gRPC's
// (grpc_client_writer.h), HTTP's (router/web/http_answer.cc) and the simulation's. It never calls
// back from inside one of its functions.
class ClientWriter {
 public:
  virtual ~ClientWriter() = default;
  // From now on the call receives the stream's events, on any thread. REQUIRES: called once, before
  // all else.
  virtual void Attach(ClientCall& call) = 0;
  // One at a time, answered by OnWriteDone. `response` is read until then.
  virtual void StartWrite(const v1::GenerateResponse* response) = 0;
  // Ends the stream; answered by OnDone. REQUIRES: once, while nothing is being written.
  virtual void Finish(const absl::Status& status) = 0;
  // Breaks the stream: what is being written fails.
  virtual void Cancel() = 0;
};

// Thread rule: the loop's thread, except for the writer's callbacks and cancelled(). Owned by the
// request's runner, which destroys it in `on_done`, its last callback.
class ClientCall final {
 public:
  struct Handlers {  // called on the loop's thread
    std::function<void(bool client_left)> on_cancelled;
    std::function<void()> on_behind;
    std::function<void()> on_caught_up;
    std::function<void()> on_done;
  };

  ClientCall(EventLoop& loop, std::unique_ptr<ClientWriter> writer);
  ClientCall(const ClientCall&) = delete;
  ClientCall& operator=(const ClientCall&) = delete;

  // REQUIRES: before any event can be handled, on the loop's thread.
  void SetHandlers(Handlers handlers) { handlers_ = std::move(handlers); }

  // A chunk is a token's. While a write is under way, chunks of one choice are joined. REQUIRES:
  // not after Finish.
  void Send(v1::GenerateResponse response);
  // Ends the stream once what was sent before is written. A bad status drops what is not being
  // written yet.
  void FinishWith(const absl::Status& status);
  // Breaks the stream, for a client that does not even read its end. Only until `on_done`.
  void Abort();

  // When a message was last taken by the client's side of the connection, or the call began.
  absl::Time last_progress() const { return last_progress_; }
  bool behind() const { return behind_; }
  // From any thread: work for it is in vain.
  bool cancelled() const { return cancelled_.load(std::memory_order_relaxed); }

  // Called by the writer, on any thread.
  void OnWriteDone(bool ok);
  // The client has left.
  void OnCancel() { Cancelled(/*client_left=*/true); }
  // The client's answer has ended without the rest of this call.
  void OnUnneeded() { Cancelled(/*client_left=*/false); }
  void OnDone();

 private:
  void Cancelled(bool client_left);
  void WriteNext();
  void PopFront();

  struct Outgoing {
    v1::GenerateResponse response;
    size_t bytes = 0;   // in memory
    size_t tokens = 0;  // joined
  };

  EventLoop& loop_;
  const std::unique_ptr<ClientWriter> writer_;
  Handlers handlers_;
  std::deque<Outgoing> outbox_;  // the first is being written while writing_
  size_t outbox_bytes_ = 0;
  size_t outbox_tokens_ = 0;
  bool writing_ = false;
  bool behind_ = false;
  bool broken_ = false;  // a write failed: the client is gone
  bool finishing_ = false;
  bool finished_ = false;
  absl::Time last_progress_;
  absl::Status status_;
  std::atomic<bool> cancelled_ = false;
};

}  // namespace baton
