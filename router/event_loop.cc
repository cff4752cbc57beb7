#include "router/event_loop.h"

#include <algorithm>

#include "absl/synchronization/notification.h"

#include "common/base/clock.h"

namespace baton {

EventLoop::EventLoop() : thread_([this] { Loop(); }) {}

EventLoop::~EventLoop() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    posted_.Signal();
  }
  thread_.join();
}

void EventLoop::Post(Task task) {
  absl::MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
  if (sleeping_) posted_.Signal();
}

void EventLoop::Run(absl::FunctionRef<void()> task) {
  absl::Notification ran;
  Post([&] {
    task();
    ran.Notify();
  });
  ran.WaitForNotification();
}

EventLoop::Timer EventLoop::RunAt(absl::Time at, Task task) {
  const Timer timer{.at = at, .number = next_timer_++};
  timers_.emplace(timer, std::move(task));
  return timer;
}

void EventLoop::Cancel(const Timer& timer) { timers_.erase(timer); }

void EventLoop::Loop() {
  std::vector<Task> tasks;
  while (TakeTasks(&tasks)) {
    for (Task& task : tasks) task();
    tasks.clear();
    RunDueTimers();
  }
}

bool EventLoop::TakeTasks(std::vector<Task>* tasks) {
  absl::MutexLock lock(&mutex_);
  if (tasks_.empty() && !stop_) {
    const absl::Duration wait =
        timers_.empty() ? absl::InfiniteDuration() : timers_.begin()->first.at - SteadyNow();
    if (wait > absl::ZeroDuration()) {
      sleeping_ = true;
      posted_.WaitWithTimeout(&mutex_, wait);
      sleeping_ = false;
    }
  }
  tasks->swap(tasks_);
  return !tasks->empty() || !stop_;
}

void EventLoop::RunDueTimers() {
  while (!timers_.empty() && timers_.begin()->first.at <= SteadyNow()) {
    Task task = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    task();
  }
}

}  // namespace baton
