// Threads with an owner: each runs one function, and the owner joins them.
#pragma once

#include <atomic>
#include <functional>
#include <list>
#include <mutex>
#include <thread>

namespace baton {

// Thread-safe. Has no bound of its own: the caller bounds how many functions run at once. Threads
// whose function has returned are joined by the next Start, so no more than these are left.
class ThreadGroup {
 public:
  ThreadGroup() = default;
  // Waits until every function has returned and every thread has ended. REQUIRES: only the
  // functions themselves may still call Start.
  ~ThreadGroup();
  ThreadGroup(const ThreadGroup&) = delete;
  ThreadGroup& operator=(const ThreadGroup&) = delete;

  // Runs `body` on a thread of its own. The thread destroys `body` after the call.
  void Start(std::function<void()> body);
  // Number of threads that are not joined yet.
  size_t size() const;

 private:
  struct Member {
    std::thread thread;
    std::atomic<bool> ended = false;  // nothing is left for the thread to do
  };

  mutable std::mutex mutex_;   // guards the member below
  std::list<Member> members_;  // a member keeps its address until it is joined
};

}  // namespace baton
