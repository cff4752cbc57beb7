// The queue of messages that the server's end of a streaming call has yet to write.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "grpcpp/support/status.h"

namespace baton {

// Writes one message at a time while the others wait in order. When all are written and the end is
// set, it finishes the call. Not thread-safe: the lock of its call guards it. The call bounds how
// many messages wait.
template <typename Message>
class Outbox {
 public:
  // Adds a message. Ignores it once the end was set.
  void Push(Message message) {
    if (!ended()) waiting_.push_back(std::move(message));
  }
  // The last waiting message; null if none waits. The message being written does not wait.
  Message* last() { return waiting_.empty() ? nullptr : &waiting_.back(); }
  // Drops the last waiting message. REQUIRES: a message waits.
  void DropLast() { waiting_.pop_back(); }
  // Drops all waiting messages.
  void DropAll() { waiting_.clear(); }
  // Sets the end. Only the first call has an effect.
  void End(const grpc::Status& status) {
    if (!ended()) end_ = status;
  }
  bool ended() const { return end_.has_value(); }
  bool finished() const { return finished_; }  // Finish was called

  // Begins the next write, or finishes the call when nothing is left to write. Returns the message
  // whose write it has begun, else null. Call it after Push, End and Written.
  template <typename Reactor>
  const Message* WriteNext(Reactor& reactor) {
    if (in_flight_ || finished_) return nullptr;
    if (waiting_.empty()) {
      if (!ended()) return nullptr;
      finished_ = true;
      reactor.Finish(*end_);
      return nullptr;
    }
    writing_ = std::move(waiting_.front());
    waiting_.pop_front();
    in_flight_ = true;
    reactor.StartWrite(&writing_);
    return &writing_;
  }
  // Call it when the write in flight has ended, whether it succeeded or not.
  void Written() {
    in_flight_ = false;
    writing_ = Message();
  }

 private:
  std::deque<Message> waiting_;
  Message writing_;  // belongs to gRPC while in_flight_
  bool in_flight_ = false;
  std::optional<grpc::Status> end_;
  bool finished_ = false;
};

}  // namespace baton
