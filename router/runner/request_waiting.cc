// The part of the runner about those that wait for workers: their place in the queue, and its end.
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/base/clock.h"
#include "router/dispatch/queue_forecast.h"
#include "router/request/request_errors.h"
#include "router/runner/request_runner.h"

namespace baton {
namespace {

constexpr absl::Duration kSweepInterval = absl::Milliseconds(100);
constexpr int kSweepRest = 20;  // a sweep takes at most this part of the loop's time

}  // namespace

void RequestRunner::Enqueue(Request& request) {
  const RequestSpec& spec = request.machine->spec();
  const WorkerNeeds& needs = request.asks.front().needs;
  const uint32_t output = needs.max_total_tokens - needs.prompt_tokens;
  const uint64_t tokens =
      parts_.admission.ExpectedTokens(needs.prompt_tokens, output, needs.choices);
  request.ticket.SetTokens(tokens);
  waiting_.Push({.number = request.number,
                 .priority = spec.priority,
                 .tenant = spec.tenant,
                 .tokens = tokens,
                 .resumed = needs.resumed});
  if (sweeping_) return;
  sweeping_ = true;
  parts_.loop.RunAt(SteadyNow() + kSweepInterval, [this] { SweepWaiting(); });
}

void RequestRunner::SweepWaiting() {
  sweeping_ = false;
  if (waiting_.empty()) return;
  const absl::Time now = SteadyNow();
  const absl::Duration most = parts_.admission.limits().max_queue_time;
  const auto time_left = [&](const FairQueue::Entry& entry) {
    const RequestSpec& spec = Find(entry.number)->machine->spec();
    if (entry.resumed) return absl::InfiniteDuration();  // it was promised an answer
    return std::min(spec.received + most, spec.deadline) - now;
  };
  const std::vector<uint64_t> late =
      WhoIsTooLate(waiting_, parts_.admission.TokensPerSecond(now), time_left);
  for (const uint64_t number : late) {
    Request& request = *Find(number);
    // A deadline that has passed is the machine's to tell.
    if (request.machine->spec().deadline <= now) continue;
    const absl::Duration waited = now - request.machine->spec().received;
    Feed(request, Abandoned{NoWorkerInTime(
                      absl::StrCat("it waited ", InMilliseconds(waited),
                                   ", and what goes before it takes longer than it may wait"),
                      parts_.admission.PredictedWait(now))});
  }
  if (waiting_.empty()) return;
  sweeping_ = true;
  const absl::Time end = SteadyNow();
  parts_.loop.RunAt(end + std::max(kSweepInterval, kSweepRest * (end - now)),
                    [this] { SweepWaiting(); });
}

}  // namespace baton
