// A watcher that turns SIGINT and SIGTERM into callbacks on a thread of its own.
#pragma once

#include <functional>
#include <thread>

namespace baton {

// While it lives, its thread calls `on_signal(number)` for every SIGINT and SIGTERM. Construct it
// before any other thread starts: the constructor blocks the signals in the calling thread, and
// threads that start later inherit that.
class SignalWatcher {
 public:
  explicit SignalWatcher(std::function<void(int)> on_signal);
  ~SignalWatcher();
  SignalWatcher(const SignalWatcher&) = delete;
  SignalWatcher& operator=(const SignalWatcher&) = delete;

 private:
  std::thread thread_;
};

}  // namespace baton
