#include "router/planner/advisor.h"

#include <algorithm>

namespace baton {
namespace {

using internal::v1::WORKER_ROLE_PREFILL;

constexpr int kTicksOfAdvice = 4;
// Long enough that four reports a second show how many sequences there were.
constexpr absl::Duration kStepSample = absl::Seconds(2);
constexpr double kLeastSequences = 0.25;

// What a counter has grown by; one that has fallen began anew.
template <typename Number>
Number GrowthOf(Number before, Number after) {
  return after < before ? after : after - before;
}

uint32_t Less(uint32_t from, uint32_t count) { return from - std::min(from, count); }

// Sequences of this router that the worker has the prompts of.
uint32_t DecodingOn(const Worker& worker) {
  const WorkerSnapshot& seen = worker.seen;
  return Less(seen.own_sequences, seen.own_arriving + seen.own_prompts);
}

}  // namespace

const Advice& Advisor::Tick(const WorkersByTarget& workers, absl::Time now) {
  load_.prefill_workers = load_.decode_workers = 0;
  for (const auto& [target, worker] : workers) {
    Seen& seen = seen_[target];
    const bool prefills = target.role == WORKER_ROLE_PREFILL;
    if (worker->ready()) ++(prefills ? load_.prefill_workers : load_.decode_workers);
    if (prefills) {
      CountPrompts(*worker, seen, now);
    } else {
      CountTokens(*worker, seen.reports);
      decoding_ += DecodingOn(*worker);
    }
  }
  std::erase_if(seen_, [&workers](const auto& one) { return workers.count(one.first) == 0; });
  if (++ticks_ < kTicksOfAdvice) return advice_;
  load_.decoding = decoding_ / ticks_;
  load_.demand = demand_.counts();
  load_.refused = std::max(load_.refused, refused_());
  decoding_ = 0;
  ticks_ = 0;
  advice_ = planner_.Take(load_, steps_, now);
  return advice_;
}

void Advisor::CountPrompts(const Worker& worker, Seen& seen, absl::Time now) {
  const WorkerTraffic& traffic = worker.traffic;
  const absl::Duration busy = worker.prompt_time.Total(now);
  load_.computed_tokens +=
      static_cast<double>(GrowthOf(seen.traffic.prompt_tokens, traffic.prompt_tokens));
  load_.busy_seconds += absl::ToDoubleSeconds(GrowthOf(seen.busy, busy));
  load_.told_tokens +=
      static_cast<double>(GrowthOf(seen.traffic.timed_prompt_tokens, traffic.timed_prompt_tokens));
  load_.told_seconds +=
      absl::ToDoubleSeconds(GrowthOf(seen.traffic.prompt_compute, traffic.prompt_compute));
  seen.traffic = traffic;
  seen.busy = busy;
}

void Advisor::Reports::Add(const Worker& worker) {
  if (count == 0) first_sequences = worker.runnable_sequences;
  count += 1;
  sequences += worker.runnable_sequences;
  used_blocks += Less(worker.seen.total_blocks, worker.seen.free_blocks);
  with_queue += worker.load.waiting_sequences() > 0 ? 1 : 0;
}

// Whatever the worker generates, for other routers too: all of it takes its time.
void Advisor::CountTokens(const Worker& worker, Reports& reports) {
  const uint64_t tokens = worker.load.generated_tokens();
  const bool goes_on = reports.count > 0 && worker.ready() &&
                       worker.info.incarnation() == reports.incarnation &&
                       tokens >= reports.generated_tokens;
  const absl::Duration length = worker.last_heard - reports.began;
  if (goes_on && length >= kStepSample) {
    // Between two reports there was about the mean of both.
    const double ends = worker.runnable_sequences - reports.first_sequences;
    const StepTime::Sample sample = {
        .sequences = (reports.sequences + ends / 2) / reports.count,
        .tokens_per_second =
            static_cast<double>(tokens - reports.generated_tokens) / absl::ToDoubleSeconds(length),
        .used_blocks = reports.used_blocks / reports.count,
        .total_blocks = static_cast<double>(worker.seen.total_blocks),
        .always_waited = reports.with_queue == reports.count};
    if (sample.sequences >= kLeastSequences && sample.tokens_per_second > 0) steps_.Add(sample);
  }
  if (!goes_on || length >= kStepSample) {
    reports = {.incarnation = worker.info.incarnation(),
               .began = worker.last_heard,
               .generated_tokens = tokens};
  }
  reports.Add(worker);
}

}  // namespace baton
