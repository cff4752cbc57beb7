#include "tests/simulation/decode_worker/decode_calls.h"

#include <algorithm>
#include <utility>

#include "common/protocol/worker_status.h"
#include "tests/simulation/sim_open.h"

namespace baton {

using internal::v1::DecodeResponse;
using internal::v1::PushRefused;

namespace {

absl::Status Superseded() {
  return WithErrorInfo(absl::AbortedError("a higher attempt at this request was started"),
                       {kReasonSuperseded, kStageDecode, "", {}});
}

void CountAttempt(Coverage& coverage, const SimAttempt& attempt) {
  if (attempt.isolate) ++coverage.isolated;
  if (attempt.choices > 1 && attempt.attempt > 1) ++coverage.repeated_together;
  const bool parted = attempt.choices == 1 && attempt.right->choices.size() > 1;
  if (parted && OutputIndex(attempt) > 0) ++coverage.resumed_choices;
  if (!attempt.right->grammar.empty() && OutputIndex(attempt) > 0) ++coverage.replayed_grammars;
}

// The same in every attempt at one choice.
std::string ResumeKey(const SimAttempt& attempt) {
  return absl::StrCat(attempt.request, ".", attempt.key.choice());
}

}  // namespace

void DecodeCalls::Crash() {
  waiting_.clear();
  rpcs_.clear();
}

void DecodeCalls::Received(ControlNetwork::CallId rpc, const internal::v1::DecodeRequest& request) {
  if (request.has_start()) return Start(rpc, request.start());
  const auto found = rpcs_.find(rpc);
  if (found == rpcs_.end()) return;
  const SimAttemptId id = found->second;
  SimDecodeCall& call = *parts_.table.Find(id);
  if (request.has_flow()) {
    call.paused = request.flow().paused();
    for (const uint32_t number : call.going) parts_.engine.Schedule(id, number);
  } else if (request.has_stop()) {
    const uint32_t number = request.stop().choice();
    const uint32_t first = call.attempt.key.choice();
    if (number < first || number - first >= call.attempt.choices) {
      return sim_.Violation("a stop for a choice of another call");
    }
    if (call.going.count(number) > 0 && call.going.size() > 1) ++sim_.coverage.stopped_choices;
    EndChoice(id, number);
  }
}

void DecodeCalls::Cancelled(ControlNetwork::CallId rpc) {
  const auto found = rpcs_.find(rpc);
  if (found != rpcs_.end()) End(found->second, absl::CancelledError("cancelled"));
}

void DecodeCalls::Start(ControlNetwork::CallId rpc, const internal::v1::DecodeStart& start) {
  if (core_.draining()) {
    return control_.End(rpc, DrainingStatus(core_.id().address(), kStageQueue));
  }
  AttemptFence& fence = parts_.table.fence();
  SimAttempt attempt = AttemptFrom(sim_, rpc, start.sequence());
  if (attempt.right->deadly_opening) {
    attempt.right->kills[attempt.attempt] = {};
    return core_.Work(0, [this] { sim_.kill_worker(false, core_.id().index); });
  }
  if (sim_.Strikes(Fault::kForgetfulDecode)) {
    attempt.forgotten_at = sim_.queue.now() + sim_.random.Between(0, 30'000);
  }
  attempt.pusher = start.pusher();
  if (!start.prefill_locally()) {
    if (absl::Status trusted = parts_.audit.CheckTrusted(attempt); !trusted.ok()) {
      ++sim_.coverage.refused_pushers;
      return control_.End(rpc, trusted);
    }
  }
  std::vector<internal::v1::AttemptKey> superseded;
  if (fence.Admit(attempt.key, attempt.choices, &superseded) != AttemptFence::Verdict::kCurrent) {
    return control_.End(rpc, Superseded());
  }
  for (const internal::v1::AttemptKey& ended : superseded) {
    const SimAttemptId lower{attempt.request, ended.attempt()};
    if (parts_.table.Find(lower) != nullptr) {
      End(lower, Superseded(), PushRefused::REASON_SUPERSEDED);
    }
  }
  if (waiting_.size() >= kSimMostWaiting) {
    fence.End(attempt.key, attempt.choices);
    return control_.End(rpc,
                        WorkerFullStatus("too many sequences", core_.id().address(), kStageQueue));
  }
  SimDecodeCall& call = parts_.table.calls()[attempt.id()];
  call.attempt = attempt;
  call.local = start.prefill_locally();
  for (uint32_t i = 0; i < attempt.choices; ++i) call.going.insert(attempt.key.choice() + i);
  call.order = next_order_;
  next_order_ += attempt.choices;
  rpcs_[rpc] = attempt.id();
  waiting_.push_back(attempt.id());
  AdmitWaiting();
}

// First come, first served: whoever is first has to have room before the next is looked at.
void DecodeCalls::AdmitWaiting() {
  while (!waiting_.empty()) {
    const SimAttemptId id = waiting_.front();
    SimDecodeCall& call = *parts_.table.Find(id);
    auto reservation = parts_.blocks.pool().TryReserve(parts_.engine.BlocksToStart(call));
    if (!reservation.has_value()) return;
    waiting_.pop_front();
    call.held.reservation = *std::move(reservation);
    Begin(id);
  }
}

void DecodeCalls::Begin(SimAttemptId id) {
  SimDecodeCall& call = *parts_.table.Find(id);
  call.accepted = true;
  CountAttempt(sim_.coverage, call.attempt);
  DecodeResponse response;
  *response.mutable_accepted()->mutable_shape() = SimShape(parts_.blocks.layout());
  parts_.table.Tell(call, response);
  if (core_.failing()) {
    End(id, WithErrorInfo(absl::UnavailableError("it fails whatever it took"),
                          {"ENGINE_FAILED", kStageDecode}));
  } else if (call.local) {
    parts_.local_prefill.Begin(id);
  } else {
    parts_.pushes.Expect(id);
  }
}

void DecodeCalls::EndCall(SimDecodeCall& call, const absl::Status& status) {
  if (std::exchange(call.call_over, true)) return;
  rpcs_.erase(call.attempt.call);
  if (!parts_.table.Forgotten(call)) control_.End(call.attempt.call, status);
}

void DecodeCalls::End(SimAttemptId id, const absl::Status& status, PushRefused::Reason reason) {
  EndCall(*parts_.table.Find(id), status);
  EndAttempt(id, reason);
}

void DecodeCalls::EndAttempt(SimAttemptId id, PushRefused::Reason reason) {
  SimDecodeCall& call = *parts_.table.Find(id);
  call.cancelled = true;
  if (parts_.pushes.Expects(id)) return parts_.pushes.Cancel(id, reason);
  std::erase(waiting_, id);
  if (!call.released) GiveBack(call);
  parts_.table.Erase(id);
}

void DecodeCalls::EndChoice(SimAttemptId id, uint32_t number) {
  SimDecodeCall& call = *parts_.table.Find(id);
  if (call.going.erase(number) == 0) return;  // it had ended before the stop came
  DecodeResponse response;
  internal::v1::DecodeFinished& finished = *response.mutable_finished();
  finished.set_exact(true);
  finished.set_choice(number);
  parts_.table.Tell(call, response);
  if (call.going.empty()) return End(id, absl::OkStatus());
  parts_.engine.DropChoice(call, number);
  GoOnSoon();
}

void DecodeCalls::GiveSigns() {
  DecodeResponse response;
  response.mutable_alive();
  for (const auto& [id, call] : parts_.table.calls()) parts_.table.Tell(call, response);
}

void DecodeCalls::EndAll() {
  std::vector<SimAttemptId> ids;
  for (const auto& [rpc, id] : rpcs_) ids.push_back(id);
  for (const SimAttemptId& id : ids) {
    End(id, DrainingStatus(core_.id().address(), kStageDecode), PushRefused::REASON_DRAINING);
  }
}

// What a preempted choice has told may rest on blocks that it has no more.
bool DecodeCalls::MayRestOn(const SimDecodeCall& call, const std::string& source) const {
  const BlockSources& sources = parts_.blocks.sources();
  const auto rests_on = [&](const SimHolding& held) {
    return held.former_sources.count(source) > 0 || sources.AnyFrom(held.blocks, source);
  };
  return (!call.local && PusherKey(call.attempt.pusher) == source) || rests_on(call.held) ||
         std::any_of(call.parted.begin(), call.parted.end(), [&](const auto& parted) {
           return parted.second.was_preempted || rests_on(parted.second.held);
         });
}

void DecodeCalls::Distrust(const std::string& source) {
  parts_.blocks.Distrust(source);
  std::vector<SimAttemptId> ids;
  for (auto& [id, call] : parts_.table.calls()) {
    if (!MayRestOn(call, source)) continue;
    call.distrusted = true;
    if (!call.call_over) ids.push_back(id);
  }
  const absl::Status wrong =
      WithErrorInfo(absl::DataLossError("its KV rests on pages that proved to be wrong"),
                    {kReasonKvWrong, kStageDecode, core_.id().address(), {}});
  for (const SimAttemptId& id : ids) {
    ++sim_.coverage.distrusted;
    parts_.table.Find(id)->attempt.right->distrusted.insert(id.second);
    End(id, wrong);
  }
}

// What the prefix cache or an earlier attempt has is pinned, the rest is new.
std::optional<int> DecodeCalls::TakeBlocks(SimAttemptId id) {
  SimDecodeCall& call = *parts_.table.Find(id);
  if (call.granted || call.released) return std::nullopt;
  DecodeBlocks& blocks = parts_.blocks;
  const std::vector<int32_t>& tokens = call.attempt.token_ids;
  const KvNeed need = {.handed_off = static_cast<int>(tokens.size())};
  const std::vector<int32_t> cached = blocks.Cached(tokens, need);
  const int cached_tokens = blocks.TokensOf(cached);
  const std::string name = ResumeKey(call.attempt);
  const RetainedPrefixes::Match more = blocks.retained().Find(
      name, "", tokens, static_cast<size_t>(cached_tokens / blocks.layout().block_size), need);
  call.held.reservation.GiveUp(blocks.UsedOf(cached, false));
  blocks.TakeCached(call.held, cached);
  blocks.TakeKept(call.held, more.blocks);
  blocks.retained().Forget(name);
  blocks.TakeReserved(call.held, need.handed_off, true);
  call.granted = true;
  call.start_token = std::max(cached_tokens, more.tokens);
  blocks.sources().Opened(call.held.blocks, call.start_token, PusherKey(call.attempt.pusher));
  sim_.coverage.cached_tokens += static_cast<uint64_t>(cached_tokens);
  sim_.coverage.resumed_tokens += static_cast<uint64_t>(call.start_token - cached_tokens);
  return call.start_token;
}

// I1, I5: what is committed is exactly the KV of these tokens.
void DecodeCalls::Commit(SimAttemptId id, const ReceiveAction::CommitSequence& commit) {
  SimDecodeCall& call = *parts_.table.Find(id);
  if (absl::Status trusted = parts_.audit.CheckTrusted(call.attempt); !trusted.ok()) {
    return RefuseCommit(call, trusted);
  }
  parts_.audit.CheckCommit(call.attempt);
  const int tokens = static_cast<int>(call.attempt.token_ids.size());
  call.committed = true;
  const uint32_t first = call.attempt.key.choice();
  CheckHandedOff(sim_, call.attempt, call.held.memory, tokens, "at its commit");
  const CarriedTokens carried(parts_.blocks.layout(), tokens);
  const int left_out = carried.layer_begins()[kSimWindowLayer] - call.start_token;
  sim_.coverage.window_pages_left_out +=
      static_cast<uint64_t>(std::max(0, left_out) / kKvPageTokens);
  for (uint32_t i = 0; i < call.attempt.choices; ++i) {
    const auto token = static_cast<int32_t>(commit.first_tokens.at(i).token().token_id());
    const std::vector<int32_t>& output = call.attempt.right->choices[first + i].output;
    if (token != output[static_cast<size_t>(OutputIndex(call.attempt))]) {
      sim_.Violation("a wrong first token");
    }
  }
  parts_.blocks.Enter(call.held, call.attempt.token_ids, tokens, tokens);
  parts_.audit.Begin(call);
  parts_.blocks.retained().Forget(ResumeKey(call.attempt));
  DecodeResponse response;
  response.mutable_committed()->set_exact(true);
  parts_.table.Tell(call, response);
  parts_.engine.BeginDecoding(id);
}

// The pusher was found out while it pushed.
void DecodeCalls::RefuseCommit(SimDecodeCall& call, const absl::Status& status) {
  ++sim_.coverage.refused_commits;
  call.attempt.right->distrusted.insert(call.attempt.attempt);
  EndCall(call, status);
  core_.process().After(
      1, [this, id = call.attempt.id()] { parts_.pushes.Cancel(id, PushRefused::REASON_ABORTED); });
}

void DecodeCalls::Fail(SimAttemptId id, const absl::Status& status) {
  SimDecodeCall& call = *parts_.table.Find(id);
  call.failed = true;
  EndCall(call, TransferFailed(status, core_.id().address()));
}

void DecodeCalls::Release(SimAttemptId id, const ReceiveAction::ReleaseBlocks& release) {
  SimDecodeCall& call = *parts_.table.Find(id);
  if (release.resume_tokens.has_value() && !call.distrusted) Retain(call, *release.resume_tokens);
  GiveBack(call);
}

// What the attempt had received waits for the next one at the same request, and for nobody else.
void DecodeCalls::Retain(const SimDecodeCall& call, int tokens) {
  if (!call.granted) return;
  tokens = std::max(tokens, call.start_token);
  tokens -= tokens % kKvPageTokens;
  CheckHandedOff(sim_, call.attempt, call.held.memory, tokens, "when it was retained");
  const auto begin = call.attempt.token_ids.begin();
  parts_.blocks.retained().Retain(ResumeKey(call.attempt),
                                  {.token_ids = {begin, begin + tokens},
                                   .numerics = "",
                                   .first_block = call.held.entered_spans,
                                   .handed_off = static_cast<int>(call.attempt.token_ids.size())},
                                  call.held.blocks, sim_.queue.time());
  core_.process().After(30'000'001,
                        [this] { parts_.blocks.retained().ForgetExpired(sim_.queue.time()); });
}

void DecodeCalls::GiveBack(SimDecodeCall& call) {
  call.released = true;
  parts_.blocks.GiveBack(call.held);
  for (auto& [number, choice] : call.parted) parts_.blocks.GiveBack(choice.held);
  GoOnSoon();
}

void DecodeCalls::GoOnSoon() {
  core_.process().After(1, [this] { GoOn(); });
}

void DecodeCalls::GoOn() {
  parts_.engine.GoOnWithPreempted();
  AdmitWaiting();
}

}  // namespace baton
