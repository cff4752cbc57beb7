#include "client/serve/signal_watcher.h"

#include <pthread.h>
#include <signal.h>

#include <utility>

namespace baton {
namespace {

// The signal that ends the watcher's thread. SIGINT and SIGTERM may come from others.
constexpr int kStopSignal = SIGUSR2;

sigset_t WatchedSignals() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGTERM);
  sigaddset(&set, kStopSignal);
  return set;
}

}  // namespace

SignalWatcher::SignalWatcher(std::function<void(int)> on_signal) {
  const sigset_t watched = WatchedSignals();
  pthread_sigmask(SIG_BLOCK, &watched, nullptr);
  thread_ = std::thread([watched, on_signal = std::move(on_signal)] {
    while (true) {
      int number = 0;
      if (sigwait(&watched, &number) != 0) continue;
      if (number == kStopSignal) return;
      on_signal(number);
    }
  });
}

SignalWatcher::~SignalWatcher() {
  pthread_kill(thread_.native_handle(), kStopSignal);
  thread_.join();
}

}  // namespace baton
