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
    uint64_t bytes = uint64_t{64} << 20;  // bytes of all waiting requests, as received
    // How long a request may wait until a worker takes it. People wait that long for a first word;
    // a client that is told to come again knows more than one that waits longer.
    absl::Duration max_queue_time = absl::Seconds(10);
  };

  // What is known of a request before its prompt is tokenised.
  struct Newcomer {
    std::string tenant{};
    std::string user{};  // of the tenant
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

  // Bytes of a message of which nobody knows yet what it asks for: gives itself back.
  class Body {
   public:
    Body(Body&& other) noexcept
        : admission_(std::exchange(other.admission_, nullptr)), bytes_(other.bytes_) {}
    Body& operator=(Body&&) = delete;
    ~Body() { Release(); }

    void Release();

   private:
    friend class Admission;
    Body(Admission* admission, uint64_t bytes) : admission_(admission), bytes_(bytes) {}
    Admission* admission_;
    const uint64_t bytes_;
  };

  explicit Admission(const Limits& limits) : limits_(limits) {}

  // RESOURCE_EXHAUSTED with RetryInfo when the queue is full, when its tenant or user has so much
  // of it that others would find none, or when the request would wait too long for a worker. A
  // request larger than the byte limit is admitted alone.
  absl::StatusOr<Ticket> Admit(Newcomer newcomer, absl::Time now);

  // Counts a body among the bytes that wait until it is read. RESOURCE_EXHAUSTED as above where they
  // are too many; one that is longer than the limit is admitted alone.
  absl::StatusOr<Body> AdmitBody(uint64_t bytes, absl::Time now);

  // Somebody waits for a worker because all are busy, from now on, or nobody does.
  void SetWaiting(bool somebody_waits, absl::Time now);
  // A request ended well: what others are expected to generate follows it.
  void SawOutput(uint32_t tokens_per_choice);

  // Prompt and expected output of a request for at most so many tokens in each choice.
  uint64_t ExpectedTokens(uint64_t prompt_tokens, uint32_t max_tokens, uint32_t choices) const;
  const Limits& limits() const { return limits_; }
  std::optional<double> TokensPerSecond(absl::Time now) const;
  // The predicted wait of a small request that names no user and has priority 0.
  absl::Duration PredictedWait(absl::Time now) const;
  uint32_t waiting_requests() const;
  uint64_t waiting_bytes() const;
  uint64_t waiting_tokens() const;  // tokens of requests that have no workers yet

 private:
  absl::Status CheckBytes(uint64_t bytes, absl::Duration wait) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  absl::Status CheckRoom(const Newcomer& newcomer, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  // What a tenant or a user has of the queue.
  struct Part {
    uint32_t requests = 0;
    uint64_t bytes = 0;
  };
  // A user of a tenant, or without a user the whole tenant.
  using Owner = std::pair<std::string, std::optional<std::string>>;
  // Those whose parts the request counts in. The anonymous tenant may have the whole queue: nobody
  // else is there.
  static std::vector<Owner> OwnersOf(const Newcomer& newcomer);
  absl::Duration Wait(const Newcomer& newcomer, absl::Time now) const
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const Limits limits_;
  mutable absl::Mutex mutex_;
  uint32_t requests_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;  // of requests and bodies
  std::map<Owner, Part> parts_of_ ABSL_GUARDED_BY(mutex_);
  Backlog backlog_ ABSL_GUARDED_BY(mutex_);
  DrainRate rate_ ABSL_GUARDED_BY(mutex_);
  double typical_output_ ABSL_GUARDED_BY(mutex_) = 128;  // tokens
};

}  // namespace baton
