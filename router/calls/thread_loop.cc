#include "router/calls/thread_loop.h"

#include "absl/synchronization/notification.h"

namespace baton {
namespace {

constexpr size_t kMaxHelp = 256;  // tasks that a thread runs because it posted one

}  // namespace

ThreadLoop::ThreadLoop() : thread_([this] { Loop(); }) {}

ThreadLoop::~ThreadLoop() {
  {
    absl::MutexLock lock(&mutex_);
    stop_ = true;
    changed_.NotifyOne();
  }
  thread_.join();
}

void ThreadLoop::Post(Task task) {
  absl::MutexLock lock(&mutex_);
  tasks_.push_back(std::move(task));
  if (!running_ && sleeps_until_ != absl::InfinitePast()) changed_.NotifyOne();
}

void ThreadLoop::PostOrRun(Task task) {
  {
    absl::MutexLock lock(&mutex_);
    tasks_.push_back(std::move(task));
    if (running_) return;
    running_ = true;
  }
  RunTasks(kMaxHelp);
}

void ThreadLoop::Run(absl::FunctionRef<void()> task) {
  absl::Notification ran;
  PostOrRun([&] {
    task();
    ran.Notify();
  });
  ran.WaitForNotification();
}

ThreadLoop::Timer ThreadLoop::RunAt(absl::Time at, Task task) {
  const Timer timer{.at = at, .number = next_timer_++};
  timers_.emplace(timer, std::move(task));
  return timer;
}

void ThreadLoop::Cancel(const Timer& timer) { timers_.erase(timer); }

absl::Time ThreadLoop::FirstTimer() const {
  return timers_.empty() ? absl::InfiniteFuture() : timers_.begin()->first.at;
}

void ThreadLoop::Loop() {
  while (true) {
    {
      absl::MutexLock lock(&mutex_);
      while (running_ || (tasks_.empty() && !stop_ && FirstTimer() > SteadyNow())) {
        // The thread that runs also handles the timers, and reports when it is done.
        sleeps_until_ = running_ ? absl::InfiniteFuture() : FirstTimer();
        changed_.WaitFor(mutex_, sleeps_until_ - SteadyNow());
      }
      sleeps_until_ = absl::InfinitePast();
      if (tasks_.empty() && stop_) return;
      running_ = true;
    }
    RunTasks(SIZE_MAX);
  }
}

void ThreadLoop::RunTasks(size_t max_tasks) {
  for (size_t done = 0;; done += batch_.size()) {
    batch_.clear();
    {
      absl::MutexLock lock(&mutex_);
      const bool idle = tasks_.empty() && FirstTimer() > SteadyNow();
      if (idle || done >= max_tasks) {
        running_ = false;
        if (!idle || stop_ || FirstTimer() < sleeps_until_) changed_.NotifyOne();
        return;
      }
      batch_.swap(tasks_);
    }
    for (Task& task : batch_) task();
    RunDueTimers();
  }
}

void ThreadLoop::RunDueTimers() {
  while (FirstTimer() <= SteadyNow()) {
    Task task = std::move(timers_.begin()->second);
    timers_.erase(timers_.begin());
    task();
  }
}

}  // namespace baton
