// The part of the runner that finds workers for the requests that wait, in the order of FairQueue.
#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/clock.h"
#include "common/base/hash.h"
#include "common/base/numerics.h"
#include "common/base/random.h"
#include "common/rpc/status.h"
#include "router/request_errors.h"
#include "router/request_runner.h"

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
    const auto prefill = parts_.registry.Ready(internal::v1::WORKER_ROLE_PREFILL);
    const auto decode = parts_.registry.Ready(internal::v1::WORKER_ROLE_DECODE);
    const Placement placement = Place(request.needs, prefill, decode, options_.placement, turn_);
    if (placement.outcome == Placement::Outcome::kWait) {
      request.none_ready_since = absl::InfiniteFuture();
      parts_.admission.SetWaiting(true, now);
      return;  // nobody overtakes
    }
    if (placement.outcome == Placement::Outcome::kPlaced) {
      ++turn_;
      waiting_.TakeFront();
      request.ticket.GotWorkers(now);
      const auto worker = [this](const auto& snapshots, std::optional<size_t> index) {
        return index.has_value() ? parts_.registry.Find(snapshots[*index].id) : nullptr;
      };
      GiveWorkers(request, worker(prefill, placement.prefill), worker(decode, placement.decode));
      continue;
    }
    // It waits for what is not there: the others go on without it.
    waiting_.Remove(request.number);
    request.none_ready_since = std::min(request.none_ready_since, now);
    if (request.needs.resumed || now - request.none_ready_since < options_.no_worker_grace) {
      no_worker_.push_back(request.number);
    } else {
      Feed(request, Abandoned{WhyNoWorker()});
    }
  }
  parts_.admission.SetWaiting(false, now);
}

void RequestRunner::GiveWorkers(Request& request, Worker* prefill, Worker* decode) {
  WorkersChosen chosen;
  chosen.capability = RandomBytes(16);
  Worker* const prompt_worker = prefill != nullptr ? prefill : decode;
  request.prompt_on = prompt_worker->id;
  ++prompt_worker->own_prompts;
  for (Worker* worker : {prefill, decode}) {
    if (worker == nullptr) continue;
    ++worker->own_sequences;
    request.sequence_on.push_back(worker->id);
    parts_.metrics.Selected(worker->target.address, options_.placement.policy);
  }
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
