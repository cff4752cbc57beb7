// Stands in for router/calls/event_loop.h: the router's thread in virtual time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/functional/function_ref.h"
#include "absl/time/time.h"

namespace baton {
inline namespace simulated {

// What was posted and what is due when it is destroyed never happens.
class EventLoop {
 public:
  using Task = absl::AnyInvocable<void()>;
  struct Timer {
    absl::Time at;
    uint64_t number = 0;
    friend bool operator<(const Timer& a, const Timer& b) {
      return a.at != b.at ? a.at < b.at : a.number < b.number;
    }
  };

  void Post(Task task);
  void PostOrRun(Task task);
  void Run(absl::FunctionRef<void()> task) { task(); }
  Timer RunAt(absl::Time at, Task task);
  void Cancel(const Timer& timer) { timers_.erase(timer); }

 private:
  void RunPosted();

  bool running_ = false;  // a task
  std::vector<Task> tasks_;
  std::map<Timer, Task> timers_;
  uint64_t next_timer_ = 1;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace simulated
}  // namespace baton
