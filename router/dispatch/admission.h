// Who may wait in the router: so many requests, so many bytes of them, and only as long as they
// would get a worker in time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "router/dispatch/queue_forecast.h"

namespace baton {

// Thread-safe. Outlives its tickets. `now` is the event loop's time.
class Admission {
 public:
  struct Limits {
    uint32_t requests = 1024;
    // Memory of all requests that wait or are still on their way to the router.
    uint64_t bytes = uint64_t{64} << 20;
    // How long a request may wait until a worker takes it. A router among others refuses soon, so
    // that its client tries another one. `baton serve`, which is the only one, lets clients wait.
    absl::Duration max_queue_time = absl::Seconds(10);
  };

  // What is known of a request before its prompt is tokenised.
  struct Newcomer {
    std::string tenant{};
    std::string user{};  // the tenant's user
    int32_t priority = 0;
    uint64_t bytes = 0;
    uint64_t tokens = 1;  // prompt and expected output, about
    absl::Duration time_left = absl::InfiniteDuration();
  };

  // A place in the queue: gives itself back.
  class Ticket {
   public:
    Ticket() = default;
    Ticket(Ticket&& other) noexcept { *this = std::move(other); }
    Ticket& operator=(Ticket&& other) noexcept {
      std::swap(admission_, other.admission_);
      std::swap(waits_, other.waits_);
      std::swap(newcomer_, other.newcomer_);
      return *this;
    }
    ~Ticket() { Release(); }

    // The prompt is tokenised: what the request costs is known.
    void SetTokens(uint64_t tokens);
    // The request got its workers, and waits until one has reserved its blocks.
    void GotWorkers(absl::Time now);
    // A worker has taken the request up, or it has ended.
    void Release();

   private:
    friend class Admission;
    Ticket(Admission* admission, Newcomer newcomer)
        : admission_(admission), waits_(true), newcomer_(std::move(newcomer)) {}
    Admission* admission_ = nullptr;
    bool waits_ = false;  // for workers
    Newcomer newcomer_;
  };

  // The bytes of a message that is still arriving or waits to be parsed. They count from their
  // arrival on, since a message that never becomes whole takes memory too. Gives itself back. Used
  // by one thread at a time.
  class Body {
   public:
    Body(Body&& other) noexcept
        : admission_(std::exchange(other.admission_, nullptr)),
          tenant_(std::move(other.tenant_)),
          bytes_(other.bytes_) {}
    Body& operator=(Body&&) = delete;
    ~Body() { Release(); }

    // Counts `bytes` more bytes. Returns RESOURCE_EXHAUSTED with RetryInfo, and counts nothing, if
    // too many bytes wait, or if the tenant has so many of them that others would find no room. A
    // body that waits alone is never refused. REQUIRES: not after Release.
    absl::Status Grow(uint64_t bytes, absl::Time now);
    void Release();

   private:
    friend class Admission;
    Body(Admission* admission, std::string tenant)
        : admission_(admission), tenant_(std::move(tenant)) {}
    Admission* admission_;
    std::string tenant_;
    uint64_t bytes_ = 0;
  };

  explicit Admission(const Limits& limits) : limits_(limits) {}

  // RESOURCE_EXHAUSTED with RetryInfo when the queue is full, when its tenant or user has so much
  // of it that others would find none, or when the request would wait too long for a worker. A
  // request larger than the byte limit is admitted alone.
  absl::StatusOr<Ticket> Admit(Newcomer newcomer, absl::Time now);

  // Returns a body that has no bytes yet.
  Body NewBody(std::string tenant) { return Body(this, std::move(tenant)); }

  // Sets whether, from now on, a request waits for a worker because all are busy.
  void SetWaiting(bool somebody_waits, absl::Time now);
  // A request ended well: what others are expected to generate follows it.
  void SawOutput(uint32_t tokens_per_choice);

  // Returns the tokens of the prompt and the expected output, at most `max_tokens` in each choice.
  uint64_t ExpectedTokens(uint64_t prompt_tokens, uint32_t max_tokens, uint32_t choices) const;
  const Limits& limits() const { return limits_; }
  std::optional<double> TokensPerSecond(absl::Time now) const;
  // The predicted wait of a small request that names no user and has priority 0.
  absl::Duration PredictedWait(absl::Time now) const;
  uint32_t waiting_requests() const;
  uint64_t waiting_bytes() const;
  uint64_t waiting_tokens() const;  // tokens of requests that have no workers yet

 private:
  // Checks that there is room for `bytes` more bytes of a message that has `own` of those that
  // wait.
  absl::Status CheckBytes(uint64_t bytes, uint64_t own, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckBody(const Body& body, uint64_t bytes, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRoom(const Newcomer& newcomer, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // The part of the queue that a tenant or a user has.
  struct Part {
    uint32_t requests = 0;
    uint64_t bytes = 0;  // a tenant's bytes include its bodies, whose users are not known yet
  };
  // A user of a tenant, or without a user the whole tenant.
  using Owner = std::pair<std::string, std::optional<std::string>>;
  // Those whose parts the request counts in. The anonymous tenant may have the whole queue: there
  // are no other tenants.
  static std::vector<Owner> OwnersOf(const Newcomer& newcomer);
  // Takes `given` from the owner's part.
  void GiveBack(const Owner& owner, const Part& given) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Duration Wait(const Newcomer& newcomer, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  mutable absl::Mutex mutex_;
  uint32_t requests_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // bytes of requests and bodies
  std::map<Owner, Part> parts_of_ ABSL_GUARDED_BY(mutex_);
  Backlog backlog_ ABSL_GUARDED_BY(mutex_);
  DrainRate rate_ ABSL_GUARDED_BY(mutex_);
  double typical_output_ ABSL_GUARDED_BY(mutex_) = 128;  // tokens
};

}  // namespace baton
