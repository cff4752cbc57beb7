// The streams of a push, as the machine at the decode worker knows them.
#pragma once

#include <set>
#include <vector>

#include "decode_worker/receive_events.h"

namespace baton {

// The stream that opened the push, and those that joined it. Not thread-safe.
class PushStreams {
 public:
  void Open(PushStreamId stream) { own_ = stream; }
  PushStreamId own() const { return own_; }  // 0 before Open
  // Whether messages of the stream belong to the push.
  bool Carries(PushStreamId stream) const { return stream == own_ || joined_.count(stream) > 0; }

  void Join(PushStreamId stream) { joined_.insert(stream); }
  const std::set<PushStreamId>& joined() const { return joined_; }
  // Returns whether the stream had joined.
  bool Forget(PushStreamId stream) { return joined_.erase(stream) > 0; }
  // Ends all streams, and forgets those that joined.
  void End(std::vector<ReceiveAction::Any>& actions) {
    actions.emplace_back(ReceiveAction::EndStream{own_});
    for (const PushStreamId stream : joined_)
      actions.emplace_back(ReceiveAction::EndStream{stream});
    joined_.clear();
  }

 private:
  PushStreamId own_ = 0;
  std::set<PushStreamId> joined_;  // at most kMaxKvStreams - 1
};

}  // namespace baton
