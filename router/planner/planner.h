// Advises how many prefill and decode workers the present load needs, from measurements of both.
//
// Prompts.  demand = tokens of the prompts that arrive a second, less what is cached, and those
// that wait spread over a window; needed = demand / (tokens a second of a busy worker *
// utilisation).
//
// Answers.  demand = requests that arrive a second * tokens of those that ended lately; a worker
// carries n sequences at t seconds a token (step_time.h); needed = demand / (n / t * utilisation),
// or, if that is more, sequences that are generated for now / (n * utilisation): answers that
// have become longer show there first.
//
// A prompt is computed once and at once, so its time is a rate; an answer holds its place, so its
// capacity is a number of sequences. Both are utilisations of a queue, and what is left of 1 is
// what takes up bursts.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>

#include "absl/time/time.h"

#include "router/planner/advice.h"
#include "router/planner/fleet_load.h"
#include "router/planner/steady_count.h"
#include "router/planner/step_time.h"

namespace baton {

// Pure; not thread-safe. Knows nothing before it was measured, and says so.
class Planner {
 public:
  struct Options {
    double utilisation = 0.8;  // how busy workers shall be: above 0, at most 1
    // A token of an answer may take so long in the mean; 0: as StepTime::Find says.
    absl::Duration time_per_token = absl::ZeroDuration();
    // The time over which demand is measured. The advice follows a lasting change within it, and
    // advises fewer workers after kHold windows.
    absl::Duration window = absl::Seconds(30);
    uint32_t workers = 0;  // workers to split between both roles; 0: the ready ones
    bool prompts_on_decode_workers =
        false;  // all of them: there are no prefill workers to advise on
  };
  static constexpr int kHold = 4;
  // The balanced split stays while the busier role is at most this times as busy as in the best.
  static constexpr double kSplitTolerance = 1.10;

  explicit Planner(const Options& options);

  // REQUIRES: called about once a second; `now` never goes back, nor do the counters of `load`.
  Advice Take(const FleetLoad& load, const StepTime& steps, absl::Time now);

 private:
  // Tokens over the seconds that they took; what is long ago counts less, what was idle does not.
  class Rate {
   public:
    void Add(double tokens, double seconds);
    // None before a second was measured.
    std::optional<double> tokens_per_second() const;

   private:
    double tokens_ = 0, seconds_ = 0;
    double measured_seconds_ = 0;  // all in all
  };
  // What is asked for, by the second.
  struct Flow {
    double prompt_tokens = 0;  // to be computed
    double requests = 0;
    double decoding = 0;  // sequences, lately
  };
  struct Sample {
    absl::Time at;
    FleetLoad load;
  };

  void Learn(const FleetLoad& load);
  // None before a third of a window was measured.
  std::optional<Flow> Measure() const;
  void AdvisePrefill(const std::optional<Flow>& flow, RoleAdvice& advice) const;
  void AdviseDecode(const std::optional<Flow>& flow, const std::optional<StepTime::Capacity>& one,
                    RoleAdvice& advice) const;
  // Says why more workers are advised than the load needs now, if they are.
  void ExplainHold(RoleAdvice& advice) const;
  void Split(Advice& advice);
  void Colocate(const std::optional<StepTime::Capacity>& one, Advice& advice) const;

  const Options options_;
  std::deque<Sample> samples_;           // samples of one window, the oldest first
  Rate seen_, told_;                     // rates of prefill workers
  double uncached_share_ = 1;            // share of prompt tokens that no cache holds
  std::optional<double> output_tokens_;  // mean output tokens of a request
  SteadyCount prefill_count_, decode_count_;
  uint32_t split_ = 0, split_of_ = 0;  // prefill workers of so many, as last advised
};

}  // namespace baton
