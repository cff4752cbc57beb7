// The router's calls to a simulated decode worker, as its Decode calls answer them.
#include <algorithm>
#include <utility>

#include "common/rpc/draining.h"
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
    Schedule(key);
  } else if (request.has_stop()) {
    Finish(key);
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
  if (fence_->Admit(attempt.key, /*choices=*/1, &superseded) != AttemptFence::Verdict::kCurrent) {
    return control_.End(rpc, Superseded());
  }
  if (!superseded.empty()) {
    const Key lower{attempt.request, superseded.front().attempt()};
    if (Find(lower) != nullptr) End(lower, Superseded(), PushRefused::REASON_SUPERSEDED);
  }
  if (waiting_.size() >= kMaxWaiting) {
    fence_->End(attempt.key, /*choices=*/1);
    return control_.End(rpc, absl::ResourceExhaustedError("too many sequences"));
  }
  Call& call = calls_[key];
  call.attempt = attempt;
  call.local = start.prefill_locally();
  call.order = next_order_++;
  rpcs_[rpc] = key;
  waiting_.push_back(key);
  AdmitWaiting();
}

// First come, first served: whoever is first has to have room before the next is looked at.
void DecodeSim::AdmitWaiting() {
  while (!waiting_.empty()) {
    const Key key = waiting_.front();
    Call& call = *Find(key);
    const int tokens = static_cast<int>(call.attempt.token_ids.size());
    auto promise = pool_->TryPromise(layout_.BlocksFor(tokens) + 1);
    if (!promise.has_value()) return;
    waiting_.pop_front();
    call.promise = *std::move(promise);
    call.accepted = true;
    if (call.attempt.isolate) ++sim_.coverage.isolated;
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
  if (call.receiver != nullptr) return Deliver(key, KvReceiver::Cancelled{reason});
  std::erase(waiting_, key);
  if (!call.released) Release(call);
  fence_->End(call.attempt.key, /*choices=*/1);
  calls_.erase(key);
}

void DecodeSim::Finish(Key key) {
  Call& call = *Find(key);
  DecodeResponse response;
  response.mutable_finished()->set_exact(true);
  response.mutable_finished()->set_choice(call.attempt.key.choice());
  Tell(call, response);
  End(key, absl::OkStatus());
}

void DecodeSim::EndAll() {
  std::vector<Key> keys;
  for (const auto& [rpc, key] : rpcs_) keys.push_back(key);
  for (const Key& key : keys) End(key, DrainingStatus(core_.id().address(), kStageDecode));
}

}  // namespace baton
