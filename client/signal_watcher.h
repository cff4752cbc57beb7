// SIGINT and SIGTERM as a callback, on a thread of their own.
#pragma once

#include <functional>
#include <thread>

namespace baton {

// While it lives, `on_signal(number)` is called on the watcher's thread for every SIGINT and
// SIGTERM. Construct it before any other thread starts: the signals are blocked in the constructing
// thread, and threads started later inherit that.
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
