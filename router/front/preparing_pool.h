// The threads that tokenise: requests become specs off the RPC threads and off the event loop, and
// whole answers become JSON off the I/O threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"

#include "router/dispatch/fair_queue.h"

namespace baton {

// Thread-safe. Its destructor closes it.
//
// Tenants share the threads by the cost of their jobs, as they share the workers
// (router/dispatch/fair_queue.h); a tenant's own jobs run in the order of their arrival. A named
// tenant runs on all threads but one at most, if there are two, so that another's job does not wait
// for the end of a long one. It uses std::mutex, which ThreadSanitizer can follow
// (bounded_queue.h).
class PreparingPool {
 public:
  struct Job {
    std::string tenant{};  // empty: the anonymous tenant
    uint64_t cost = 1;     // about how much work it is, in tokens
    // Returns whether the client has left. Called on any thread, before `run`. Empty: never.
    std::function<bool()> cancelled{};
    // Called once, on a thread of the pool. Its argument is OK, or the reason not to do the job:
    // CANCELLED if the client has left, UNAVAILABLE (DRAINING) once the pool is stopped.
    absl::AnyInvocable<void(const absl::Status& may_run)> run;
  };
  // `capacity`: jobs that may wait for a thread. A named tenant's may be at most eight times as many
  // as there are places free, so a lone one has eight ninths of them.
  PreparingPool(int threads, size_t capacity);
  ~PreparingPool();

  // Returns false, and never runs `job`, if the queue or the tenant's part of it is full, or if the
  // pool is closed.
  bool TryRun(Job job);
  // From now on waiting jobs get UNAVAILABLE, since the router shuts down, and running jobs should
  // end as soon as they can.
  void Stop() { stopping_.store(true); }
  // Stops the pool, runs what waits and joins the threads. Takes nothing from then on. Not called
  // twice at a time.
  void Close();
  // Read by the jobs.
  const std::atomic<bool>& stopping() const { return stopping_; }

 private:
  struct Tenant {
    std::deque<std::pair<uint64_t, Job>> waiting;  // with their numbers, the oldest first
    int running = 0;
    bool has_turn = false;  // its oldest job is in `turns_`
  };
  using Tenants = std::map<std::string, Tenant>;

  void Run();
  // Puts the tenant's oldest job into `turns_` if the tenant may run another one, and forgets a
  // tenant that has no job.
  void Offer(Tenants::iterator tenant);
  // The next job in the turn of the tenants. REQUIRES: `turns_` is not empty.
  Job Take();
  absl::Status MayRun(const Job& job) const;

  const size_t capacity_;
  const int most_of_tenant_;  // threads on which a named tenant's jobs may run
  std::atomic<bool> stopping_ = false;

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool closed_ = false;
  uint64_t last_number_ = 0;
  size_t waiting_ = 0;
  Tenants tenants_;  // those with jobs that wait or run
  FairQueue turns_;  // the oldest waiting job of each tenant that may run another one

  std::vector<std::thread> threads_;
};

}  // namespace baton
