// The router's calls to a simulated decode worker, as its Decode calls answer them.
#include <algorithm>
#include <utility>

#include "common/protocol/worker_status.h"
#include "tests/simulation/decode_sim.h"
#include "tests/simulation/sim_open.h"

namespace baton {

using internal::v1::DecodeResponse;
using internal::v1::PushRefused;

namespace {

constexpr size_t kMaxWaiting = 8;

absl::Status Superseded() {
  return WithErrorInfo(absl::AbortedError("a higher attempt at this request was started"),
                       {kReasonSuperseded, kStageDecode, "", {}});
}

void CountAttempt(Coverage& coverage, const SimAttempt& attempt) {
  if (attempt.isolate) ++coverage.isolated;
  if (attempt.choices > 1 && attempt.attempt > 1) ++coverage.repeated_together;
  const bool parted = attempt.choices == 1 && attempt.right->choices.size() > 1;
  if (parted && OutputIndex(attempt) > 0) ++coverage.resumed_choices;
}

}  // namespace

void DecodeSim::Opened(ControlNetwork::CallId call, ControlNetwork::Method method) {
  if (method == ControlNetwork::Method::kWatch) core_.Watched(call);
}

void DecodeSim::Received(ControlNetwork::CallId call, const internal::v1::DecodeRequest& request) {
  if (request.has_start()) return Start(call, request.start());
  const auto found = rpcs_.find(call);
  if (found == rpcs_.end()) return;
  const Key key = found->second;
  Call& running = *Find(key);
  if (request.has_flow()) {
    running.paused = request.flow().paused();
    for (const uint32_t number : running.going) Schedule(key, number);
  } else if (request.has_stop()) {
    const uint32_t number = request.stop().choice();
    const uint32_t first = running.attempt.key.choice();
    if (number < first || number - first >= running.attempt.choices) {
      return sim_.Violation("a stop for a choice of another call");
    }
    if (running.going.count(number) > 0 && running.going.size() > 1)
      ++sim_.coverage.stopped_choices;
    EndChoice(key, number);
  }
}

void DecodeSim::Cancelled(ControlNetwork::CallId call) {
  core_.WatchOver(call);
  const auto found = rpcs_.find(call);
  if (found != rpcs_.end()) End(found->second, absl::CancelledError("cancelled"));
}

void DecodeSim::Start(ControlNetwork::CallId rpc, const internal::v1::DecodeStart& start) {
  if (core_.draining()) {
    return control_.End(rpc, DrainingStatus(core_.id().address(), kStageQueue));
  }
  const SimAttempt attempt = AttemptFrom(sim_, rpc, start.sequence());
  const Key key{attempt.request, attempt.attempt};
  std::vector<internal::v1::AttemptKey> superseded;
  if (fence_->Admit(attempt.key, attempt.choices, &superseded) != AttemptFence::Verdict::kCurrent) {
    return control_.End(rpc, Superseded());
  }
  for (const internal::v1::AttemptKey& ended : superseded) {
    const Key lower{attempt.request, ended.attempt()};
    if (Find(lower) != nullptr) End(lower, Superseded(), PushRefused::REASON_SUPERSEDED);
  }
  if (waiting_.size() >= kMaxWaiting) {
    fence_->End(attempt.key, attempt.choices);
    return control_.End(rpc,
                        WorkerFullStatus("too many sequences", core_.id().address(), kStageQueue));
  }
  Call& call = calls_[key];
  call.attempt = attempt;
  call.local = start.prefill_locally();
  for (uint32_t i = 0; i < attempt.choices; ++i) call.going.insert(attempt.key.choice() + i);
  call.order = next_order_;
  next_order_ += attempt.choices;
  rpcs_[rpc] = key;
  waiting_.push_back(key);
  AdmitWaiting();
}

// First come, first served: whoever is first has to have room before the next is looked at.
void DecodeSim::AdmitWaiting() {
  while (!waiting_.empty()) {
    const Key key = waiting_.front();
    Call& call = *Find(key);
    auto reservation = pool_->TryReserve(BlocksToStart(call));
    if (!reservation.has_value()) return;
    waiting_.pop_front();
    call.held.reservation = *std::move(reservation);
    call.accepted = true;
    CountAttempt(sim_.coverage, call.attempt);
    DecodeResponse response;
    *response.mutable_accepted()->mutable_shape() = SimShape(layout_.block_size);
    Tell(call, response);
    if (core_.failing()) {
      End(key, WithErrorInfo(absl::UnavailableError("it fails whatever it took"),
                             {"ENGINE_FAILED", kStageDecode}));
    } else if (call.local) {
      core_.Work(sim_.random.Between(10, 2'000), [this, key] { ComputeChunk(key); });
    } else {
      call.receiver = MakeReceiver(call.attempt);
      Arm(key, call);
    }
  }
}

void DecodeSim::Tell(const Call& call, const DecodeResponse& response) {
  if (call.call_over) return;
  control_.Answer(call.attempt.call, std::make_shared<DecodeResponse>(response));
}

void DecodeSim::EndCall(Call& call, const absl::Status& status) {
  if (std::exchange(call.call_over, true)) return;
  rpcs_.erase(call.attempt.call);
  control_.End(call.attempt.call, status);
}

void DecodeSim::End(Key key, const absl::Status& status, PushRefused::Reason reason) {
  EndCall(*Find(key), status);
  EndAttempt(key, reason);
}

void DecodeSim::EndAttempt(Key key, PushRefused::Reason reason) {
  Call& call = *Find(key);
  call.cancelled = true;
  if (call.receiver != nullptr) return Deliver(key, ReceiveEvent::Cancelled{reason});
  std::erase(waiting_, key);
  if (!call.released) Release(call);
  fence_->End(call.attempt.key, call.attempt.choices);
  calls_.erase(key);
}

// One choice has ended or is to; the call ends with the last.
void DecodeSim::EndChoice(Key key, uint32_t number) {
  Call& call = *Find(key);
  if (call.going.erase(number) == 0) return;  // it had ended before the stop came
  DecodeResponse response;
  response.mutable_finished()->set_exact(true);
  response.mutable_finished()->set_choice(number);
  Tell(call, response);
  if (call.going.empty()) return End(key, absl::OkStatus());
  DropChoice(call, number);
}

void DecodeSim::EndAll() {
  std::vector<Key> keys;
  for (const auto& [rpc, key] : rpcs_) keys.push_back(key);
  for (const Key& key : keys) {
    End(key, DrainingStatus(core_.id().address(), kStageDecode), PushRefused::REASON_DRAINING);
  }
}

}  // namespace baton
