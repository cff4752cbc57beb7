// Refusals that a client who asks again at once does not get at once.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/functional/any_invocable.h"
#include "absl/status/status.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/base/token_bucket.h"
#include "router/calls/event_loop.h"
#include "router/tenants/caller.h"

namespace baton {

// A refusal costs less than an answer, but clients that send the refused request again without a
// pause get so many of them that they take the router's CPUs from others. So a declared tenant that
// is refused with RESOURCE_EXHAUSTED more often than kPerSecond gets each further such refusal
// later: by kHold, and by more the more of its refusals wait, so that it gets some kHeldPerSecond,
// but by kMostHold at most. A thousand connections then cost what a hundred requests a second do.
//
// Thread-safe. Borrows the loop, which ends first.
class Refusals {
 public:
  static constexpr double kPerSecond = 20;  // refusals of a tenant that are sent at once
  static constexpr double kBurst = 40;
  static constexpr absl::Duration kHold = absl::Seconds(1);
  static constexpr double kHeldPerSecond = 100;  // held refusals of a tenant that are sent later
  static constexpr absl::Duration kMostHold = absl::Seconds(10);
  // Held refusals of all tenants: a second's refusals of ten tenants. Beyond this, refusals are
  // sent at once. Each holds the head of its request, at most some 24 KiB.
  static constexpr size_t kMostHeld = 1024;

  // Sends the refusal. Must not own the body or the message of the request, which would stay in
  // memory for seconds without being counted.
  using Tell = absl::AnyInvocable<void()>;

  explicit Refusals(EventLoop& loop) : loop_(loop) {}
  // Sends the held refusals.
  ~Refusals();
  Refusals(const Refusals&) = delete;
  Refusals& operator=(const Refusals&) = delete;

  // Calls `tell`, which sends `status` to the caller, once: before this returns, or later on the
  // loop's thread.
  void Refuse(const Caller& caller, const absl::Status& status, Tell tell);

 private:
  struct Tenant {
    TokenBucket told = {kPerSecond, kBurst};
    int held = 0;  // number of its held refusals
  };
  struct Held {
    std::string tenant;
    Tell tell;
  };

  Tenant& TenantOf(const Caller& caller) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // On the loop's thread: sends the refusals that are due, and sets a timer for the rest.
  void TellDue();

  EventLoop& loop_;
  EventLoop::Timer timer_;  // the timer of the next TellDue; the loop's thread alone uses it
  absl::Mutex mutex_;
  std::map<std::string, Tenant> tenants_ ABSL_GUARDED_BY(mutex_);  // by name
  std::multimap<absl::Time, Held> held_ ABSL_GUARDED_BY(mutex_);   // by when they are due
};

}  // namespace baton
