#include "client/plan/planned_fleet.h"

#include <algorithm>
#include <optional>
#include <utility>

namespace baton {
namespace {

using Kind = PlannedSequence::Kind;
using EventKind = PlannedEvent::Kind;

// After so long without memory on its decode worker a prompt holds no place on its prefill worker:
// the first hedged attempt (docs/scheduling.md).
constexpr int64_t kPostponedAfterNs = 300'000'000;

WorkerSnapshot SnapshotOf(const StepCosts& costs, int64_t kv_tokens, int block_tokens) {
  const int64_t blocks = kv_tokens / block_tokens;
  return {.identity = "model",
          .max_model_len = static_cast<uint32_t>(
              std::min<int64_t>(std::max<int64_t>(blocks - 1, 0) * block_tokens, UINT32_MAX)),
          .block_size = static_cast<uint32_t>(block_tokens),
          .total_blocks = static_cast<uint32_t>(blocks),
          .kv_bytes_per_token = static_cast<uint64_t>(costs.facts().kv_bytes_per_token),
          .free_blocks = static_cast<uint32_t>(blocks)};
}

}  // namespace

PlannedFleet::PlannedFleet(const FleetOptions& options, const StepCosts& prefill,
                           const StepCosts& decode, const PlannedLoad& load)
    : options_(options),
      facts_(prefill.facts()),
      load_(load),
      router_(options.placement, load.page_tokens, holders_),
      requests_(load.requests.size()),
      network_(static_cast<size_t>(options.prefill_workers) +
                   static_cast<size_t>(options.decode_workers),
               options.link_bytes_per_s, prefill.facts().layers),
      tally_(options_.objective) {
  for (int i = 0; i < options.prefill_workers; ++i) AddWorker(/*prefills=*/true, prefill);
  for (int i = 0; i < options.decode_workers; ++i) AddWorker(/*prefills=*/false, decode);
}

void PlannedFleet::AddWorker(bool prefills, const StepCosts& costs) {
  const PlannedEngine::Options& engine = prefills ? options_.prefill : options_.decode;
  const int64_t kv_tokens = prefills ? options_.prefill_kv_tokens : options_.decode_kv_tokens;
  const auto worker = static_cast<uint32_t>(workers_.size());
  PlannedMemory memory(worker, {.tokens = kv_tokens, .page_tokens = load_.page_tokens}, holders_);
  workers_.push_back({.engine = PlannedEngine(engine, costs, std::move(memory)),
                      .kv = KvTally(kv_tokens),
                      .prefills = prefills});
  router_.Add(prefills ? ReadyWorkers::Role::kPrefill : ReadyWorkers::Role::kDecode,
              SnapshotOf(costs, kv_tokens, engine.block_tokens));
}

PlanResult PlannedFleet::Run() {
  const int64_t begun_ns = load_.requests.empty() ? 0 : load_.requests[0].at_ns;
  if (!load_.requests.empty()) events_.Add(begun_ns, EventKind::kArrival, 0);
  uint64_t handled = 0;
  for (; !events_.empty() && tally_.bad() <= options_.most_bad; ++handled) {
    const PlannedEvent event = events_.Next();
    now_ns_ = event.at_ns;
    Handle(event);
  }
  now_ns_ = tally_.ended_ns();  // timers of requests that have ended may have come since
  for (uint32_t worker = 0; worker < workers_.size(); ++worker) MemoryChanged(worker);
  const bool stopped = tally_.bad() > options_.most_bad;
  PlanResult result = tally_.Take(begun_ns);
  result.stopped = stopped;
  result.events = handled;
  result.prefill = UseOf(/*prefills=*/true, result.span_ns);
  result.decode = UseOf(/*prefills=*/false, result.span_ns);
  return result;
}

void PlannedFleet::Handle(const PlannedEvent& event) {
  const uint32_t subject = event.subject;
  switch (event.kind) {
    case EventKind::kArrival:
      tally_.Came();
      events_.Add(now_ns_ + options_.request_overhead_ns, EventKind::kAsk, subject);
      if (subject + 1 < load_.requests.size()) {
        events_.Add(load_.requests[subject + 1].at_ns, EventKind::kArrival, subject + 1);
      }
      return;
    case EventKind::kAsk:
      waiting_.push_back(subject);
      tally_.Waits(waiting_.size(), now_ns_);
      return PlaceWaiting();
    case EventKind::kStepDone:
      return StepDone(subject);
    case EventKind::kPostponed:
      router_.Postponed(requests_[subject].lease);
      return PlaceWaiting();
    case EventKind::kPushed:
      return Pushed(subject);
  }
}

void PlannedFleet::PlaceWaiting() {
  while (!waiting_.empty()) {
    const uint32_t request = waiting_.front();
    const PlannedRequest& planned = load_.requests[request];
    if (now_ns_ - planned.at_ns > options_.max_queue_ns) {
      Refuse();
      continue;
    }
    switch (router_.Place(planned, requests_[request].lease)) {
      case Placement::Outcome::kWait:
        return;
      case Placement::Outcome::kNoneIsReady:
        Refuse();
        continue;
      case Placement::Outcome::kPlaced:
        waiting_.pop_front();
        tally_.Waits(waiting_.size(), now_ns_);
        Start(request);
    }
  }
}

void PlannedFleet::Refuse() {
  waiting_.pop_front();
  tally_.Waits(waiting_.size(), now_ns_);
  tally_.Refused(now_ns_);
}

void PlannedFleet::Start(uint32_t index) {
  const PlannedRequest& planned = load_.requests[index];
  Request& request = requests_[index];
  request.times = {.at = planned.at_ns, .placed = now_ns_};
  const bool local = request.lease.prefill == kNoWorker;
  request.decode = {.kind = local ? Kind::kWhole : Kind::kReceive,
                    .request = index,
                    .prompt_tokens = planned.input_tokens,
                    .output_tokens = planned.output_tokens,
                    .pages = planned.pages};
  workers_[request.lease.decode].engine.Submit(request.decode);
  Wake(request.lease.decode);
  if (!local && !request.lease.accepted) {
    events_.Add(now_ns_ + kPostponedAfterNs, EventKind::kPostponed, index);
  }
}

// Begins a step if none is in flight.
void PlannedFleet::Wake(uint32_t index) {
  Worker& worker = workers_[index];
  if (worker.engine.in_step()) return;
  const std::optional<int64_t> step_ns = worker.engine.Begin();
  worker.step_begun_ns = now_ns_;
  if (step_ns.has_value()) events_.Add(now_ns_ + *step_ns, EventKind::kStepDone, index);
  MemoryChanged(index);
  for (PlannedSequence* sequence : worker.engine.admitted()) Admitted(*sequence);
}

void PlannedFleet::Admitted(PlannedSequence& sequence) {
  Request& request = requests_[sequence.request];
  if (sequence.kind != Kind::kPrefillOnly) router_.Accepted(request.lease);
  if (sequence.kind == Kind::kReceive) {
    request.prefill = {.kind = Kind::kPrefillOnly,
                       .request = sequence.request,
                       .prompt_tokens = sequence.prompt_tokens,
                       .output_tokens = 1,
                       .pages = sequence.pages};
    workers_[request.lease.prefill].engine.Submit(request.prefill);
    return Wake(request.lease.prefill);
  }
  request.times.begun = now_ns_;
  tally_.ComputesPrompt(sequence.cached_tokens);
  if (sequence.kind == Kind::kWhole) return;
  // What the prefill worker holds and the decode worker does not can go at once.
  request.sent_tokens = request.decode.cached_tokens;
  request.first_sent_ns = now_ns_;
  const int64_t held = sequence.cached_tokens - request.sent_tokens;
  if (held > 0) Send(sequence.request, held, now_ns_, now_ns_);
}

void PlannedFleet::StepDone(uint32_t index) {
  Worker& worker = workers_[index];
  for (const StepOutcome& outcome : worker.engine.Finish()) Computed(index, outcome);
  Wake(index);
  PlaceWaiting();
}

void PlannedFleet::Computed(uint32_t worker, const StepOutcome& outcome) {
  PlannedSequence& sequence = *outcome.sequence;
  Request& request = requests_[sequence.request];
  if (sequence.kind == Kind::kPrefillOnly) {
    const int64_t end = int64_t{outcome.first_token} + outcome.token_count;
    const int64_t tokens = std::max<int64_t>(end - request.sent_tokens, 0);
    const int64_t begun = workers_[worker].step_begun_ns;
    Send(sequence.request, tokens, begun + (now_ns_ - begun) / facts_.layers, now_ns_);
    if (outcome.produces_token) PromptDone(sequence.request);
    return;
  }
  if (!outcome.produces_token) return;
  // A sequence that was preempted computes its prompt again, not for the first time.
  if (request.messages.empty()) {
    request.times.computed = now_ns_;
    tally_.PrefilledLocally();
    router_.Computed(request.lease, static_cast<uint32_t>(sequence.cached_tokens),
                     absl::Nanoseconds(now_ns_ - request.times.begun));
  }
  Token(sequence.request);
}

void PlannedFleet::Send(uint32_t index, int64_t tokens, int64_t first_ns, int64_t last_ns) {
  Request& request = requests_[index];
  const int64_t bytes = tokens * facts_.kv_bytes_per_token;
  const int64_t sent_ns =
      network_.Send(request.lease.prefill, request.lease.decode, bytes, first_ns, last_ns);
  request.sent_tokens += tokens;
  request.all_sent_ns = std::max(request.all_sent_ns, sent_ns);
  tally_.Sends(bytes);
}

void PlannedFleet::PromptDone(uint32_t index) {
  Request& request = requests_[index];
  request.times.computed = now_ns_;
  router_.Computed(request.lease, static_cast<uint32_t>(request.prefill.cached_tokens),
                   absl::Nanoseconds(now_ns_ - request.times.begun));
  events_.Add(std::max(request.all_sent_ns, now_ns_), EventKind::kPushed, index);
}

void PlannedFleet::Pushed(uint32_t index) {
  Request& request = requests_[index];
  const int64_t sent = request.prefill.prompt_tokens - request.decode.cached_tokens;
  router_.HandedOff(request.lease, static_cast<uint64_t>(sent * facts_.kv_bytes_per_token),
                    absl::Nanoseconds(now_ns_ - request.first_sent_ns),
                    absl::Nanoseconds(now_ns_ - request.times.computed));
  const uint32_t prefill = request.lease.prefill;
  workers_[prefill].engine.Release(request.prefill);
  MemoryChanged(prefill);
  Wake(prefill);
  const uint32_t decode = request.lease.decode;
  workers_[decode].engine.Commit(request.decode);
  Token(index);
  Wake(decode);
  PlaceWaiting();
}

void PlannedFleet::Token(uint32_t index) {
  Request& request = requests_[index];
  const bool is_first = request.messages.empty();
  if (is_first) request.times.first = now_ns_;
  tally_.Token(is_first ? -1 : now_ns_ - request.messages.back().at_ns);
  request.messages.push_back({.at_ns = now_ns_, .tokens = 1});
  const auto tokens = static_cast<size_t>(request.decode.output_tokens);
  if (request.messages.size() == tokens) Complete(index);
}

void PlannedFleet::Complete(uint32_t index) {
  Request& request = requests_[index];
  const uint32_t decode = request.lease.decode;
  workers_[decode].engine.Release(request.decode);
  MemoryChanged(decode);
  router_.Ended(request.lease);
  tally_.Completed(request.times, load_.requests[index].input_tokens,
                   std::exchange(request.messages, {}));
}

void PlannedFleet::MemoryChanged(uint32_t index) {
  Worker& worker = workers_[index];
  const PlannedMemory& memory = worker.engine.memory();
  worker.kv.Holds(memory.used(), now_ns_);
  const int block = (worker.prefills ? options_.prefill : options_.decode).block_tokens;
  router_.SetFreeBlocks(index, memory.free() / block);
}

RoleUse PlannedFleet::UseOf(bool prefills, int64_t span_ns) const {
  RoleTally role(span_ns);
  for (uint32_t index = 0; index < workers_.size(); ++index) {
    const Worker& worker = workers_[index];
    if (worker.prefills != prefills) continue;
    const PlannedEngine::Counts& counts = worker.engine.counts();
    role.Add({.busy_ns = counts.busy_ns,
              .link_busy_ns = network_.busy_ns(index),
              .steps = prefills ? counts.steps : counts.decode_steps,
              .rows = prefills ? counts.chunk_rows : counts.decode_rows,
              .preemptions = counts.preemptions},
             worker.kv);
  }
  return role.Use();
}

}  // namespace baton
