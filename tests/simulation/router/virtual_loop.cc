#include "tests/simulation/router/virtual_loop.h"

#include <utility>

namespace baton {

void VirtualLoop::Post(Task task) {
  tasks_.push_back(std::move(task));
  if (tasks_.size() > 1) return;
  queue_.After(1, [this, alive = std::weak_ptr<char>(alive_)] {
    if (!alive.expired()) RunPosted();
  });
}

void VirtualLoop::PostOrRun(Task task) {
  if (running_) return Post(std::move(task));
  tasks_.push_back(std::move(task));
  RunPosted();
}

void VirtualLoop::RunPosted() {
  running_ = true;
  while (!tasks_.empty()) {
    for (Task& task : std::exchange(tasks_, {})) task();
  }
  running_ = false;
}

EventLoop::Timer VirtualLoop::RunAt(absl::Time at, Task task) {
  const Timer timer{.at = at, .number = next_timer_++};
  timers_.emplace(timer, std::move(task));
  if (at == absl::InfiniteFuture()) return timer;
  // Rounded up: a timer is never early.
  const Micros due = absl::ToInt64Microseconds(at - absl::UnixEpoch()) + 1;
  queue_.At(due, [this, timer, alive = std::weak_ptr<char>(alive_)] {
    if (alive.expired()) return;
    const auto found = timers_.find(timer);
    if (found == timers_.end()) return;
    Task due_task = std::move(found->second);
    timers_.erase(found);
    due_task();
  });
  return timer;
}

}  // namespace baton
