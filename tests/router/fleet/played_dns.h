// A DNS that a test plays.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"

#include "router/fleet/name_resolver.h"

namespace baton {

// Its answer for a name is what the test last said, and is awaited if the test has said nothing.
// Thread-safe.
class PlayedDns {
 public:
  PlayedDns() = default;
  // Ends the lookups that wait.
  ~PlayedDns() {
    {
      const absl::MutexLock lock(&state_->mutex);
      state_->open = true;
    }
    AwaitRunning(0);
  }
  PlayedDns(const PlayedDns&) = delete;
  PlayedDns& operator=(const PlayedDns&) = delete;

  // May be called after this object is gone.
  NameResolver::LookUp LookUp() const {
    return [state = state_](const std::string& host) -> HostAddresses {
      const absl::MutexLock lock(&state->mutex);
      ++state->running;
      ++state->asked[host];
      const auto answered = [&] {
        state->mutex.AssertHeld();
        return state->open || state->answers.count(host) != 0;
      };
      state->mutex.Await(absl::Condition(&answered));
      --state->running;
      const auto answer = state->answers.find(host);
      if (answer == state->answers.end()) return absl::UnavailableError("silent");
      return answer->second;
    };
  }
  void Answer(const std::string& host, HostAddresses answer) {
    const absl::MutexLock lock(&state_->mutex);
    state_->answers.insert_or_assign(host, std::move(answer));
  }
  // Waits until so many lookups wait for an answer.
  void AwaitRunning(int running) {
    const absl::MutexLock lock(&state_->mutex);
    const auto reached = [&] {
      state_->mutex.AssertHeld();
      return state_->running == running;
    };
    state_->mutex.Await(absl::Condition(&reached));
  }
  int asked(const std::string& host) {
    const absl::MutexLock lock(&state_->mutex);
    return state_->asked[host];
  }

 private:
  struct State {
    absl::Mutex mutex;
    std::map<std::string, HostAddresses> answers;
    std::map<std::string, int> asked;
    int running = 0;
    bool open = false;
  };
  std::shared_ptr<State> state_ = std::make_shared<State>();
};

}  // namespace baton
