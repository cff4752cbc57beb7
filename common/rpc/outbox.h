// What the server's end of a streaming call has yet to write.
#pragma once

#include <deque>
#include <optional>
#include <utility>

#include "grpcpp/support/status.h"

namespace baton {

// One message is written at a time, the others wait in order; when all are written and the end was
// set, the call ends. Not thread-safe: under the lock of its call, which bounds what waits.
template <typename Message>
class Outbox {
 public:
  // After the end was set nothing more is taken.
  void Push(Message message) {
    if (!ended()) waiting_.push_back(std::move(message));
  }
  // Of those that wait, which the one being written does not, the one that goes last; null: none
  // waits.
  Message* last() { return waiting_.empty() ? nullptr : &waiting_.back(); }
  void DropLast() { waiting_.pop_back(); }
  void DropAll() { waiting_.clear(); }
  // The first end counts.
  void End(const grpc::Status& status) {
    if (!ended()) end_ = status;
  }
  bool ended() const { return end_.has_value(); }
  bool finished() const { return finished_; }  // Finish was called

  // Begins the next write, or finishes the call when it is time. Returns what is being written from
  // now on; null: nothing new. After Push, End, and Written.
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
  // The write that was begun has ended, well or not.
  void Written() {
    in_flight_ = false;
    writing_ = Message();
  }

 private:
  std::deque<Message> waiting_;
  Message writing_;  // gRPC's while in_flight_
  bool in_flight_ = false;
  std::optional<grpc::Status> end_;
  bool finished_ = false;
};

}  // namespace baton
