#include "client/plan/fleet_tally.h"

#include <algorithm>
#include <utility>

namespace baton {
namespace {

double ShareOf(double whole, double part) { return whole > 0 ? part / whole : 0; }

}  // namespace

void KvTally::Holds(int64_t held, int64_t now_ns) {
  token_ns_ +=
      static_cast<double>(held_) * static_cast<double>(now_ns - std::exchange(since_ns_, now_ns));
  held_ = held;
  most_ = std::max(most_, held);
}

double KvTally::mean_used(int64_t span_ns) const {
  return ShareOf(static_cast<double>(tokens_) * static_cast<double>(span_ns), token_ns_);
}

void RoleTally::Add(const Worker& worker, const KvTally& kv) {
  ++sums_.workers;
  sums_.busy += OfTime(worker.busy_ns);
  sums_.most_busy = std::max(sums_.most_busy, OfTime(worker.busy_ns));
  sums_.link_busy += OfTime(worker.link_busy_ns);
  sums_.kv_used += kv.mean_used(span_ns_);
  sums_.most_kv_used = std::max(sums_.most_kv_used, kv.most_used());
  sums_.preemptions += worker.preemptions;
  steps_ += worker.steps;
  rows_ += worker.rows;
}

RoleUse RoleTally::Use() const {
  RoleUse use = sums_;
  for (double* sum : {&use.busy, &use.link_busy, &use.kv_used}) *sum = ShareOf(use.workers, *sum);
  use.rows_per_step = ShareOf(static_cast<double>(steps_), static_cast<double>(rows_));
  return use;
}

double RoleTally::OfTime(int64_t ns) const {
  return ShareOf(static_cast<double>(span_ns_), static_cast<double>(ns));
}

void FleetTally::Waits(size_t requests, int64_t now_ns) {
  waiting_ns_ += static_cast<double>(waiting_) *
                 static_cast<double>(now_ns - std::exchange(waiting_since_ns_, now_ns));
  waiting_ = requests;
  result_.most_waiting = std::max<uint64_t>(result_.most_waiting, requests);
}

void FleetTally::Refused(int64_t now_ns) {
  ended_ns_ = now_ns;
  ++result_.refused;
}

void FleetTally::Token(int64_t gap_ns) {
  ++result_.tokens;
  if (gap_ns >= 0) result_.itl.Add(gap_ns);
}

void FleetTally::Completed(const RequestTimes& times, int input_tokens,
                           std::vector<TokenMessage> messages) {
  const int64_t end_ns = messages.back().at_ns;
  const LoadRecord record{.intended_ns = times.at,
                          .sent_ns = times.at,
                          .end_ns = end_ns,
                          .messages = std::move(messages),
                          .outcome = RequestOutcome::kCompleted};
  ended_ns_ = record.end_ns;
  ++result_.completed;
  result_.good += Keeps(record, objective_);
  result_.input_tokens += static_cast<uint64_t>(input_tokens);
  result_.ttft_ns.push_back(times.first - times.at);
  result_.queue_ns.push_back(times.placed - times.at);
  result_.prefill_ns.push_back(times.computed - times.placed);
  result_.exposed_ns.push_back(times.first - times.computed);
  result_.e2e_ns.push_back(record.end_ns - times.at);
  if (record.messages.size() > 1) result_.tpot_ns.push_back(TpotNanoseconds(record));
}

PlanResult FleetTally::Take(int64_t begun_ns) {
  Waits(0, ended_ns_);
  result_.span_ns = ended_ns_ - begun_ns;
  result_.mean_waiting = ShareOf(static_cast<double>(result_.span_ns), waiting_ns_);
  return std::move(result_);
}

}  // namespace baton
