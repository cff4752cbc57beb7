// Which prefill workers the router may not use, by what its decode workers have told it.
#pragma once

#include <map>
#include <string>

#include "baton/internal/v1/worker.pb.h"
#include "tests/simulation/event_queue.h"

namespace baton {

class ToldQuarantines {
 public:
  // A Watch message of a decode worker reaches the router.
  void Heard(const std::string& decode, const internal::v1::WatchResponse& message, Micros now);
  // The decode worker is none of the router's any more.
  void Forget(const std::string& decode) { workers_.erase(decode); }
  // Whether a decode worker has told that this prefill worker forges, and the router has read it.
  bool Forbid(const std::string& prefill, Micros now) const;

 private:
  struct Worker {
    bool known = false;  // the router has not given it up
    Micros heard_at = 0;
    std::map<std::string, Micros> told;  // [pusher]: since when
  };
  std::map<std::string, Worker> workers_;
};

}  // namespace baton
