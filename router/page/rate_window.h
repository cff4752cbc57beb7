// Measures how fast counters have grown recently.
#pragma once

#include <cstdint>
#include <deque>

#include "absl/time/time.h"

#include "router/fleet/worker.h"
#include "router/page/fleet_report.h"

namespace baton {

// The rates of one worker or of all workers. Not thread-safe.
class RateWindow {
 public:
  static constexpr absl::Duration kLength = absl::Seconds(5);

  // Takes what is counted by `now` and returns the rates since at most kLength ago. A counter that
  // has fallen begins anew: the worker is another one. REQUIRES: `now` never goes back.
  FleetRates Take(const WorkerTraffic& traffic, absl::Time now) {
    if (!samples_.empty() && (traffic.output_tokens < samples_.back().traffic.output_tokens ||
                              traffic.prompt_tokens < samples_.back().traffic.prompt_tokens ||
                              traffic.hand_offs < samples_.back().traffic.hand_offs)) {
      samples_.clear();
    }
    samples_.push_back({now, traffic});
    while (now - samples_.front().at > kLength) samples_.pop_front();
    const Sample& first = samples_.front();
    const double seconds = absl::ToDoubleSeconds(now - first.at);
    FleetRates rates;
    if (seconds <= 0) return rates;
    const auto rate = [seconds](uint64_t before, uint64_t after) {
      return static_cast<double>(after - before) / seconds;
    };
    rates.output_tokens = rate(first.traffic.output_tokens, traffic.output_tokens);
    rates.prompt_tokens = rate(first.traffic.prompt_tokens, traffic.prompt_tokens);
    rates.hand_offs = rate(first.traffic.hand_offs, traffic.hand_offs);
    rates.hand_off_bytes = rate(first.traffic.hand_off_bytes, traffic.hand_off_bytes);
    if (const uint64_t count = traffic.hand_offs - first.traffic.hand_offs; count > 0) {
      rates.exposed_transfer =
          (traffic.exposed_transfer - first.traffic.exposed_transfer) / static_cast<double>(count);
    }
    return rates;
  }

 private:
  struct Sample {
    absl::Time at;
    WorkerTraffic traffic;
  };
  std::deque<Sample> samples_;  // four a second
};

}  // namespace baton
