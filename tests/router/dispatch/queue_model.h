// A queue in front of one worker that takes two prompts at a time and computes one, in virtual
// time, with a real Admission at its door and a sweep every 100 ms.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "router/dispatch/admission.h"
#include "router/dispatch/fair_queue.h"
#include "router/dispatch/queue_forecast.h"

namespace baton {

struct ModelArrival {
  double at = 0;  // seconds
  uint64_t tokens = 0;
  uint64_t about_tokens = 0;  // as it seems at the door
  std::string tenant{};
};

// The first prompt that is begun then, or later, takes so much longer.
struct ModelStall {
  double at = 0;
  double seconds = 0;
};

struct ModelOutcome {
  enum Kind { kServed, kRefusedAtOnce, kRefusedLate } kind = kServed;
  double wait = 0;           // seconds in the queue, or until it was refused
  absl::Status status{};     // why it was refused at once; OK: it was not
  bool time_was_up = false;  // it was refused late since it had waited as long as it may
};

class QueueModel {
 public:
  struct Options {
    double tokens_per_second = 20000;  // the worker's speed
    double max_queue_seconds = 1;
    std::vector<ModelStall> stalls{};  // ascending
  };

  explicit QueueModel(const Options& options)
      : options_(options),
        admission_(
            {.requests = 1u << 20, .max_queue_time = absl::Seconds(options.max_queue_seconds)}) {}

  // `arrivals` ascend. Outcomes in their order. Until nothing is left, or `until`.
  std::vector<ModelOutcome> Run(const std::vector<ModelArrival>& arrivals, double until = kNever) {
    std::vector<ModelOutcome> outcomes(arrivals.size());
    size_t next = 0;
    while (now_ < until && (next < arrivals.size() || !waiting_.empty() || !at_worker_.empty())) {
      const double arrival = next < arrivals.size() ? arrivals[next].at : kNever;
      now_ = std::min({arrival, next_sweep_, computed_at_});
      if (now_ == computed_at_) {
        at_worker_.erase(at_worker_.begin());
        computed_at_ = kNever;
      } else if (now_ == arrival) {
        Arrive(arrivals[next], next, outcomes[next]);
        ++next;
      } else {
        Sweep(outcomes);
      }
      Place(outcomes);
    }
    return outcomes;
  }

 private:
  static constexpr double kNever = 1e18;
  static constexpr double kSweepSeconds = 0.1;
  static constexpr size_t kAtWorker = 2;
  struct Request {
    Admission::Ticket ticket;
    double received = 0;
    uint64_t tokens = 0;
  };

  absl::Time Time() const { return absl::UnixEpoch() + absl::Seconds(now_); }

  void Arrive(const ModelArrival& arrival, uint64_t number, ModelOutcome& outcome) {
    auto ticket =
        admission_.Admit({.tenant = arrival.tenant, .tokens = arrival.about_tokens}, Time());
    if (!ticket.ok()) {
      outcome = {.kind = ModelOutcome::kRefusedAtOnce, .status = ticket.status()};
      return;
    }
    ticket->SetTokens(arrival.tokens);
    queue_.Push({.number = number, .tenant = arrival.tenant, .tokens = arrival.tokens});
    waiting_.emplace(number, Request{*std::move(ticket), now_, arrival.tokens});
    next_sweep_ = std::min(next_sweep_, now_ + kSweepSeconds);
  }

  void Sweep(std::vector<ModelOutcome>& outcomes) {
    const auto time_left = [&](const FairQueue::Entry& entry) {
      return absl::Seconds(waiting_.at(entry.number).received + options_.max_queue_seconds - now_);
    };
    for (const uint64_t number :
         WhoIsTooLate(queue_, admission_.TokensPerSecond(Time()), time_left)) {
      const double waited = now_ - waiting_.at(number).received;
      outcomes[number] = {.kind = ModelOutcome::kRefusedLate,
                          .wait = waited,
                          .time_was_up = waited >= options_.max_queue_seconds};
      queue_.Remove(number);
      waiting_.erase(number);
    }
    next_sweep_ = queue_.empty() ? kNever : now_ + kSweepSeconds;
  }

  void Place(std::vector<ModelOutcome>& outcomes) {
    while (!queue_.empty() && at_worker_.size() < kAtWorker) {
      const uint64_t next = queue_.Front()->number;
      queue_.TakeFront();
      const auto found = waiting_.find(next);
      found->second.ticket.GotWorkers(Time());
      outcomes[next].wait = now_ - found->second.received;
      at_worker_.push_back(found->second.tokens);
      waiting_.erase(found);
    }
    admission_.SetWaiting(!queue_.empty(), Time());
    if (computed_at_ < kNever || at_worker_.empty()) return;
    computed_at_ = now_ + static_cast<double>(at_worker_.front()) / options_.tokens_per_second;
    if (stall_ < options_.stalls.size() && options_.stalls[stall_].at <= now_) {
      computed_at_ += options_.stalls[stall_++].seconds;
    }
  }

  const Options options_;
  Admission admission_;
  FairQueue queue_;
  std::map<uint64_t, Request> waiting_;  // by number, as in the queue
  std::vector<uint64_t> at_worker_;      // tokens
  double now_ = 0, next_sweep_ = kNever, computed_at_ = kNever;
  size_t stall_ = 0;  // the next
};

}  // namespace baton
