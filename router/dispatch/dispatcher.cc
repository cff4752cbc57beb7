#include "router/dispatch/dispatcher.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "router/dispatch/queue_forecast.h"
#include "router/request/errors.h"

namespace baton {
namespace {

constexpr absl::Duration kSweepInterval = absl::Milliseconds(100);
constexpr int kSweepRest = 20;  // a sweep takes at most this part of the loop's time

// Whether waiting changes nothing at a link between workers that could serve the request.
bool HasLinkSpentForGood(const WorkerNeeds& needs) {
  return std::any_of(needs.spent_links.begin(), needs.spent_links.end(),
                     [](const auto& spent) { return spent.rests_until == absl::InfiniteFuture(); });
}

absl::Span<const int32_t> TokenIdsOf(const RequestSpec& spec) {
  const std::vector<uint32_t>& ids = spec.prompt_token_ids;
  return absl::MakeConstSpan(reinterpret_cast<const int32_t*>(ids.data()), ids.size());
}

}  // namespace

Dispatcher::Dispatcher(const Parts& parts, const Options& options, Handlers handlers)
    : parts_(parts), options_(options), handlers_(std::move(handlers)) {}

void Dispatcher::Enter(uint64_t number, const RequestSpec& spec, Admission::Ticket& ticket) {
  requests_.emplace(number, Request{.spec = spec, .ticket = ticket, .asks = {}});
}

void Dispatcher::Leave(uint64_t number) {
  waiting_.Remove(number);
  requests_.erase(number);
}

void Dispatcher::SetFailedHandOffs(uint64_t number, uint32_t failed_in_a_row) {
  requests_.at(number).failed_hand_offs = failed_in_a_row;
}

void Dispatcher::Ask(uint64_t number, ChooseWorkers ask) {
  const auto found = requests_.find(number);
  if (found == requests_.end()) return;
  Request& request = found->second;
  request.asks.push_back(std::move(ask));
  if (request.asks.size() > 1) return;
  request.none_ready_since = absl::InfiniteFuture();
  Enqueue(number, request);
  PlaceSoon();
}

void Dispatcher::Enqueue(uint64_t number, Request& request) {
  const WorkerNeeds& needs = request.asks.front().needs;
  const uint32_t output = needs.max_total_tokens - needs.prompt_tokens;
  const uint64_t tokens =
      parts_.admission.ExpectedTokens(needs.prompt_tokens, output, needs.choices);
  request.ticket.SetTokens(tokens);
  waiting_.Push({.number = number,
                 .priority = request.spec.priority,
                 .tenant = request.spec.tenant,
                 .user = request.spec.user,
                 .tokens = tokens,
                 .resumed = needs.resumed});
  if (!sweeping_) SweepAt(parts_.loop.Now() + kSweepInterval);
}

void Dispatcher::PlaceSoon() {
  if (placing_soon_ || (waiting_.empty() && set_aside_.empty())) return;
  placing_soon_ = true;
  parts_.loop.Post([this] {
    placing_soon_ = false;
    PlaceWaiting();
  });
}

void Dispatcher::PlaceWaiting() {
  const absl::Time now = parts_.loop.Now();
  for (const uint64_t number : std::exchange(set_aside_, {})) {
    const auto found = requests_.find(number);
    if (found != requests_.end()) Enqueue(number, found->second);
  }
  while (const FairQueue::Entry* next = waiting_.Front()) {
    const uint64_t number = next->number;
    Request& request = requests_.at(number);
    WorkerNeeds& needs = request.asks.front().needs;
    const ReadyWorkers::Candidates candidates = FindCandidates(request, needs);
    const Placement placement = Choose(needs, candidates);
    switch (placement.outcome) {
      case Placement::Outcome::kPlaced:
        PlaceFront(number, request, candidates, placement, now);
        break;
      case Placement::Outcome::kNoneIsReady:
        SetAside(number, request, now);
        break;
      case Placement::Outcome::kWait:
        request.none_ready_since = absl::InfiniteFuture();
        parts_.admission.SetWaiting(true, now);
        return;  // no request overtakes another
    }
  }
  parts_.admission.SetWaiting(false, now);
}

void Dispatcher::PlaceFront(uint64_t number, Request& request,
                            const ReadyWorkers::Candidates& candidates, const Placement& placement,
                            absl::Time now) {
  waiting_.TakeFront();
  request.ticket.GotWorkers(now);
  const ChooseWorkers ask = std::move(request.asks.front());
  request.asks.pop_front();
  request.none_ready_since = absl::InfiniteFuture();
  if (!request.asks.empty()) Enqueue(number, request);
  if (!ask.needs.whole_prompt) CountReuse(request.spec, candidates, placement);
  handlers_.on_placed(number, Assign(ask, candidates, placement));
}

void Dispatcher::SetAside(uint64_t number, Request& request, absl::Time now) {
  waiting_.Remove(number);
  request.none_ready_since = std::min(request.none_ready_since, now);
  const WorkerNeeds& needs = request.asks.front().needs;
  const bool waits_long = needs.resumed && !HasLinkSpentForGood(needs);
  const absl::Duration grace = waits_long ? options_.resume_grace : options_.no_worker_grace;
  if (now - request.none_ready_since < grace) {
    set_aside_.push_back(number);
  } else {
    handlers_.on_given_up(number, WhyNoWorker());
  }
}

ReadyWorkers::Candidates Dispatcher::FindCandidates(const Request& request,
                                                    WorkerNeeds& needs) const {
  needs.failed_hand_offs = request.failed_hand_offs;
  return parts_.fleet.Choose(needs, TokenIdsOf(request.spec), request.spec.cache_salt,
                             options_.placement, turn_);
}

Placement Dispatcher::Choose(const WorkerNeeds& needs,
                             const ReadyWorkers::Candidates& candidates) const {
  const auto link = [this, &needs](uint64_t p, uint64_t d) {
    LinkEstimate estimate = parts_.fleet.Link(p, d);
    for (const SpentLink& spent : needs.spent_links) {
      if (spent.prefill != p || spent.decode != d) continue;
      estimate.spent = true;
      estimate.rests = parts_.fleet.Now() < spent.rests_until;
    }
    return estimate;
  };
  return parts_.place(needs, candidates.prefill, candidates.decode, options_.placement, turn_,
                      link);
}

std::optional<Assignment> Dispatcher::TryElsewhere(uint64_t number, ChooseWorkers ask,
                                                   Lease* beside) {
  if (beside != nullptr) {
    // tests/planted_bugs: runner_keeps_waiting_prompts_places
    beside->PromptPostponed();
    PlaceSoon();
  }
  const WorkerNeeds& needs = ask.needs;
  ReadyWorkers::Candidates candidates = FindCandidates(requests_.at(number), ask.needs);
  std::erase_if(candidates.decode, [&needs](const WorkerSnapshot& worker) {
    const uint64_t room = TokensIn(worker, worker.free_blocks);
    return room <= uint64_t{needs.prompt_tokens} + worker.tokens_since ||
           std::count(needs.avoid.begin(), needs.avoid.end(), worker.id) > 0;
  });
  const Placement placement = Choose(needs, candidates);
  if (!waiting_.empty() || !placement.decode.has_value() ||
      placement.outcome != Placement::Outcome::kPlaced) {
    return std::nullopt;
  }
  if (!needs.whole_prompt) CountReuse(requests_.at(number).spec, candidates, placement);
  return Assign(ask, candidates, placement);
}

void Dispatcher::CountReuse(const RequestSpec& spec, const ReadyWorkers::Candidates& candidates,
                            const Placement& placement) {
  const WorkerSnapshot* holds = nullptr;
  const auto look = [&holds](const std::vector<WorkerSnapshot>& list, std::optional<size_t> index) {
    if (!index.has_value()) return;
    const WorkerSnapshot& worker = list[*index];
    if (worker.cached_tokens > (holds == nullptr ? 0 : holds->cached_tokens)) holds = &worker;
  };
  look(candidates.prefill, placement.prefill);
  look(candidates.decode, placement.decode);
  if (holds == nullptr) return;
  parts_.fleet.pages().Reused(*parts_.fleet.Find(holds->id), TokenIdsOf(spec), spec.cache_salt,
                              holds->cached_tokens);
}

Assignment Dispatcher::Assign(const ChooseWorkers& ask, const ReadyWorkers::Candidates& candidates,
                              const Placement& placement) {
  ++turn_;
  const auto id = [](const auto& list, std::optional<size_t> index) {
    return index.has_value() ? list[*index].id : 0;
  };
  const WorkerSnapshot& computes = placement.prefill.has_value()
                                       ? candidates.prefill[*placement.prefill]
                                       : candidates.decode[*placement.decode];
  const uint32_t prompt_tokens = ask.needs.prompt_tokens;
  const Lease::Terms terms{.prefill = id(candidates.prefill, placement.prefill),
                           .decode = id(candidates.decode, placement.decode),
                           .prompt_tokens = prompt_tokens,
                           .computed_tokens = ask.needs.whole_prompt
                                                  ? prompt_tokens
                                                  : prompt_tokens - computes.cached_tokens,
                           .alone = ask.needs.alone};
  return {.attempt = ask.attempt,
          .prefill = parts_.fleet.Find(terms.prefill),
          .decode = parts_.fleet.Find(terms.decode),
          .lease = Lease(parts_.fleet, terms)};
}

void Dispatcher::SweepAt(absl::Time at) {
  sweeping_ = true;
  parts_.loop.RunAt(at, [this] { Sweep(); });
}

void Dispatcher::Sweep() {
  sweeping_ = false;
  if (waiting_.empty()) return;
  const absl::Time now = parts_.loop.Now();
  const absl::Duration most = parts_.admission.limits().max_queue_time;
  const auto time_left = [&](const FairQueue::Entry& entry) {
    if (entry.resumed) return absl::InfiniteDuration();  // its client has a part of the answer
    const RequestSpec& spec = requests_.at(entry.number).spec;
    return std::min(spec.received + most, spec.deadline) - now;
  };
  const std::vector<uint64_t> late =
      WhoIsTooLate(waiting_, parts_.admission.TokensPerSecond(now), time_left);
  for (const uint64_t number : late) {
    const RequestSpec& spec = requests_.at(number).spec;
    if (spec.deadline <= now) continue;  // the request itself reports a passed deadline
    const std::string bound =
        spec.deadline < spec.received + most
            ? "its deadline allows"
            : absl::StrCat("--max-queue-time (", InMilliseconds(most), ") allows");
    handlers_.on_given_up(
        number, NoWorkerInTime(absl::StrCat("it waited ", InMilliseconds(now - spec.received),
                                            ", and what goes before it takes longer than ", bound),
                               parts_.admission.PredictedWait(now)));
  }
  if (waiting_.empty()) return;
  const absl::Time end = parts_.loop.Now();
  SweepAt(end + std::max(kSweepInterval, kSweepRest * (end - now)));
}

absl::Status Dispatcher::WhyNoWorker() const {
  const FleetSummary fleet = parts_.view.Get();
  std::string why = absl::StrCat("no worker is ready for the request: ", fleet.ready_prefill,
                                 " prefill and ", fleet.ready_decode, " decode workers are ready");
  if (fleet.ready_prefill > 0 && fleet.ready_decode > 0 && !fleet.has_pair) {
    absl::StrAppend(&why,
                    fleet.has_same_model
                        ? ", none of which can hand off: a decode worker needs an --advertise "
                          "that other machines reach"
                        : ", none of which serve the same model");
  }
  if (!fleet.problem.empty()) absl::StrAppend(&why, "; ", fleet.problem);
  return NoReadyWorker(why);
}

}  // namespace baton
