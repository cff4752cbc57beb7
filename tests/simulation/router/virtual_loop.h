// The router's event loop in virtual time.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/time/time.h"

#include "router/calls/event_loop.h"
#include "tests/simulation/event_queue.h"

namespace baton {

// Borrows `queue`, which runs its tasks. What was posted and what is due when the loop is destroyed
// never happens.
class VirtualLoop final : public EventLoop {
 public:
  explicit VirtualLoop(EventQueue& queue) : queue_(queue) {}

  void Post(Task task) override;
  void PostOrRun(Task task) override;
  absl::Time Now() const override { return queue_.time(); }
  Timer RunAt(absl::Time at, Task task) override;
  void Cancel(const Timer& timer) override { timers_.erase(timer); }

 private:
  void RunPosted();

  EventQueue& queue_;
  bool running_ = false;  // a task runs
  std::vector<Task> tasks_;
  std::map<Timer, Task> timers_;
  uint64_t next_timer_ = 1;
  std::shared_ptr<char> alive_ = std::make_shared<char>();
};

}  // namespace baton
