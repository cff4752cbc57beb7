#include "router/request/hedge.h"

#include <utility>

#include "common/base/check.h"

namespace baton {

void Hedge::Plan(absl::Duration wait, absl::Time now) {
  wait_ = wait;
  begin_at_ = now + wait;
}

void Hedge::Begin(RequestState& request, WorkerNeeds needs, uint32_t beside, uint64_t decode_id) {
  begin_at_ = absl::InfiniteFuture();
  needs.beside = beside;
  needs.prefer_decode = 0;
  needs.avoid.push_back(decode_id);
  attempt_ = {.number = ++request.last_attempt,
              .until = request.now + request.options.hedged_accept_wait};
  request.Ask(ChooseWorkers{attempt_->number, std::move(needs)});
}

void Hedge::Choose(const RequestState& request, const WorkersChosen& workers) {
  attempt_->workers = workers;
  attempt_->until = request.now + request.options.hedged_accept_wait;
}

void Hedge::GiveUp(RequestState& request) {
  Cancel(request);
  Plan(wait_ * 2, request.now);
}

void Hedge::CallEnded(RequestState& request) {
  attempt_.reset();
  GiveUp(request);
}

void Hedge::Cancel(RequestState& request) {
  if (running() && attempt_->workers.has_value()) request.Ask(CancelDecode{attempt_->number});
  attempt_.reset();
  begin_at_ = absl::InfiniteFuture();
}

HedgedAttempt Hedge::Take() {
  BATON_CHECK(running() && attempt_->workers.has_value(), "no hedged attempt has workers");
  begin_at_ = absl::InfiniteFuture();
  return *std::exchange(attempt_, std::nullopt);
}

}  // namespace baton
