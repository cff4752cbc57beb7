// The part of the runner that finds workers for the requests that wait, in the order of FairQueue.
#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/clock.h"
#include "common/base/failpoint.h"
#include "common/base/hash.h"
#include "common/base/numerics.h"
#include "common/base/random.h"
#include "common/rpc/status.h"
#include "router/request/request_errors.h"
#include "router/runner/request_runner.h"

namespace baton {

void RequestRunner::SchedulePlacing() {
  if (placing_ || (waiting_.empty() && no_worker_.empty())) return;
  placing_ = true;
  parts_.loop.Post([this] {
    placing_ = false;
    PlaceWaiting();
  });
}

void RequestRunner::PlaceWaiting() {
  const absl::Time now = SteadyNow();
  for (const uint64_t number : std::exchange(no_worker_, {})) {
    Request* request = Find(number);
    if (request != nullptr && !request->ended) Enqueue(*request);
  }
  while (const FairQueue::Entry* next = waiting_.Front()) {
    Request& request = *Find(next->number);
    WorkerNeeds& needs = request.asks.front().needs;
    const Candidates candidates = FindCandidates(request, needs);
    const auto link = [this](uint64_t p, uint64_t d) { return parts_.registry.Link(p, d); };
    const Placement placement =
        Place(needs, candidates.prefill, candidates.decode, options_.placement, turn_, link);
    if (placement.outcome == Placement::Outcome::kWait) {
      request.none_ready_since = absl::InfiniteFuture();
      parts_.admission.SetWaiting(true, now);
      return;  // nobody overtakes
    }
    if (placement.outcome == Placement::Outcome::kPlaced) {
      ++turn_;
      waiting_.TakeFront();
      request.ticket.GotWorkers(now);
      const ChooseWorkers ask = std::move(request.asks.front());
      request.asks.pop_front();
      request.none_ready_since = absl::InfiniteFuture();
      if (!request.asks.empty()) Enqueue(request);
      GiveWorkers(request, ask, candidates, placement);
      continue;
    }
    // It waits for what is not there: the others go on without it.
    waiting_.Remove(request.number);
    request.none_ready_since = std::min(request.none_ready_since, now);
    if (needs.resumed || now - request.none_ready_since < options_.no_worker_grace) {
      no_worker_.push_back(request.number);
    } else {
      Feed(request, Abandoned{WhyNoWorker()});
    }
  }
  parts_.admission.SetWaiting(false, now);
}

RequestRunner::Candidates RequestRunner::FindCandidates(const Request& request,
                                                        WorkerNeeds& needs) {
  needs.failed_hand_offs = request.failed_hand_offs;
  const RequestSpec& spec = request.machine->spec();
  const auto* prompt = reinterpret_cast<const int32_t*>(spec.prompt_token_ids.data());
  return parts_.registry.Choose(needs, absl::MakeConstSpan(prompt, spec.prompt_token_ids.size()),
                                spec.cache_salt, options_.placement, turn_);
}

// Not before those that have no workers yet, and only where there is room at once.
void RequestRunner::PlaceElsewhere(uint64_t number, ChooseWorkers ask) {
  Request* request = Find(number);
  if (request == nullptr || request->ended || !request->machine->running(ask.attempt)) return;
  if (const auto share = request->shares.find(ask.needs.beside); share != request->shares.end()) {
    parts_.registry.PromptPostponed(share->second);
    SchedulePlacing();
  }
  Candidates candidates = FindCandidates(*request, ask.needs);
  const WorkerNeeds& needs = ask.needs;
  std::erase_if(candidates.decode, [&needs](const WorkerSnapshot& worker) {
    const uint64_t room = uint64_t{worker.free_blocks} * worker.block_size;
    return room <= uint64_t{needs.prompt_tokens} + worker.tokens_since ||
           std::count(needs.avoid.begin(), needs.avoid.end(), worker.id) > 0;
  });
  const auto link = [this](uint64_t p, uint64_t d) { return parts_.registry.Link(p, d); };
  const Placement placement =
      Place(needs, candidates.prefill, candidates.decode, options_.placement, turn_, link);
  if (!waiting_.empty() || !placement.decode.has_value() ||
      placement.outcome != Placement::Outcome::kPlaced) {
    return Feed(*request, NoneElsewhere{ask.attempt});
  }
  ++turn_;
  GiveWorkers(*request, ask, candidates, placement);
}

void RequestRunner::GiveWorkers(Request& request, const ChooseWorkers& ask,
                                const Candidates& candidates, const Placement& placement) {
  const auto find = [this](const auto& list, std::optional<size_t> index) {
    return index.has_value() ? parts_.registry.Find(list[*index].id) : nullptr;
  };
  Worker* const prefill = find(candidates.prefill, placement.prefill);
  Worker* const decode = find(candidates.decode, placement.decode);
  const WorkerSnapshot& computes = prefill != nullptr ? candidates.prefill[*placement.prefill]
                                                      : candidates.decode[*placement.decode];
  const uint32_t prompt_tokens = ask.needs.prompt_tokens;
  WorkerShare& share = request.shares[ask.attempt];
  share = {.prefill = prefill != nullptr ? prefill->id : 0,
           .decode = decode != nullptr ? decode->id : 0,
           .prompt_tokens = prompt_tokens,
           .computed_tokens = prompt_tokens - computes.cached_tokens};
  parts_.registry.Take(share);
  for (const Worker* worker : {prefill, decode}) {
    if (worker == nullptr) continue;
    parts_.metrics.Selected(worker->target.address, options_.placement.policy);
  }
  BATON_FAILPOINT("router.workers_found");
  WorkersChosen chosen;
  chosen.attempt = ask.attempt;
  chosen.capability = RandomBytes(16);
  if (prefill != nullptr) {
    chosen.prefill = WorkerName{.id = prefill->id, .name = prefill->info.name()};
    chosen.prefill_numerics = prefill->info.shape().numerics();
  }
  if (decode != nullptr) {
    chosen.decode = WorkerName{.id = decode->id, .name = decode->info.name()};
    chosen.decode_numerics = decode->info.shape().numerics();
    chosen.decode_address =
        decode->info.address().empty() ? decode->target.address : decode->info.address();
    chosen.decode_identity = decode->info.identity();
  }
  const internal::v1::WorkerInfo& last = decode != nullptr ? decode->info : prefill->info;
  chosen.system_fingerprint = absl::StrCat(ToHex(last.identity().weights_digest().substr(0, 6)),
                                           "-", last.shape().numerics(), "-", last.version());
  Feed(request, chosen);
}

absl::Status RequestRunner::WhyNoWorker() const {
  const FleetSummary fleet = parts_.fleet.Get();
  std::string why = absl::StrCat("no worker is ready for the request: ", fleet.ready_prefill,
                                 " prefill and ", fleet.ready_decode, " decode workers are ready");
  if (fleet.ready_prefill > 0 && fleet.ready_decode > 0 && !fleet.has_pair) {
    absl::StrAppend(&why, ", none of which serve the same model");
  }
  if (!fleet.problem.empty()) absl::StrAppend(&why, "; ", fleet.problem);
  return NoReadyWorker(why);
}

}  // namespace baton
