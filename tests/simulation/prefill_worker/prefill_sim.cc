#include "tests/simulation/prefill_worker/prefill_sim.h"

#include <utility>

#include "common/protocol/identity.h"
#include "common/protocol/worker_status.h"
#include "tests/simulation/sim_open.h"

namespace baton {

using internal::v1::PrefillRequest;
using internal::v1::PrefillResponse;
using internal::v1::PushAbort;

PrefillSim::PrefillSim(Sim& sim, Network& network, ControlNetwork& control, int index)
    : sim_(sim),
      control_(control),
      blocks_(sim, SimLayout(16 * static_cast<int>(sim.random.Between(1, 3))), index),
      core_(
          sim, control, {true, index}, blocks_.layout().block_size, [this] { return Load(); },
          [this]() -> PrefixPages& { return blocks_.prefix_cache().pages(); }),
      table_(sim, control),
      pushes_(sim, network, core_, blocks_, table_,
              {.finished = [this](SimAttemptId id,
                                  const absl::Status& status) { PushFinished(id, status); },
               .give_blocks_back = [this](SimAttemptId id) { GiveBlocksBack(*table_.Find(id)); }}),
      engine_(sim, core_, blocks_, table_, pushes_, [this](SimAttemptId id) { PromptDone(id); }) {
  Serve();
  core_.SetGiveSigns([this] { GiveSigns(); });
  Restart();
}

PrefillSim::~PrefillSim() { Crash(); }

void PrefillSim::Serve() {
  using CallId = ControlNetwork::CallId;
  control_.AddWorker(core_.id(),
                     {.process = &core_.process(),
                      .opened =
                          [this](CallId call, ControlNetwork::Method method) {
                            if (method == ControlNetwork::Method::kWatch) core_.Watched(call);
                          },
                      .received =
                          [this](CallId call, const google::protobuf::Message& message) {
                            if (core_.IsWatch(call)) return;
                            Received(call, static_cast<const PrefillRequest&>(message));
                          },
                      .cancelled =
                          [this](CallId call) {
                            core_.WatchOver(call);
                            Cancelled(call);
                          }});
}

void PrefillSim::Restart() {
  core_.Boot();
  blocks_.Boot(core_.prefix_identity());
}

void PrefillSim::Crash() {
  core_.Crash();
  pushes_.Crash();
  table_.calls().clear();
  waiting_.clear();
  rpcs_.clear();
  blocks_.Crash();
}

WorkerCore::Load PrefillSim::Load() const {
  WorkerCore::Load load;
  for (const auto& [id, call] : table_.calls()) {
    load.computed.insert(id.first);
    load.runnable += call.engine_stopped ? 0 : 1;
  }
  load.running = load.runnable;
  load.waiting = static_cast<uint32_t>(waiting_.size());
  for (const SimAttempt& attempt : waiting_) {
    load.waiting_tokens += static_cast<uint32_t>(attempt.token_ids.size());
  }
  load.free_blocks = static_cast<uint32_t>(blocks_.pool().available_blocks());
  return load;
}

void PrefillSim::Received(ControlNetwork::CallId rpc, const PrefillRequest& request) {
  if (core_.draining()) {
    return control_.End(rpc, DrainingStatus(core_.id().address(), kStageQueue));
  }
  if (core_.failing()) {
    return control_.End(rpc, WithErrorInfo(absl::UnavailableError("it takes nothing"),
                                           {"ENGINE_FAILED", kStagePrefill}));
  }
  if (waiting_.size() >= kSimMostWaiting) {
    return control_.End(
        rpc, WorkerFullStatus("too many prompts wait", core_.id().address(), kStageQueue));
  }
  SimAttempt attempt = AttemptFrom(sim_, rpc, request.sequence());
  if (attempt.right->deadly_opening) {
    attempt.right->kills[attempt.attempt] = {};
    return core_.Work(0, [this] { sim_.kill_worker(true, core_.id().index); });
  }
  if (!request.decode_address().empty()) {
    if (absl::Status same = CheckSameIdentity(core_.identity(), request.decode_identity());
        !same.ok()) {
      return control_.End(rpc, same);
    }
    attempt.decode = request.decode_address()[1] - '0';
  }
  if (sim_.Strikes(Fault::kForgetfulPrefill)) {
    attempt.forgotten_at = sim_.queue.now() + sim_.random.Between(0, 50'000);
  }
  rpcs_[rpc] = attempt.id();
  waiting_.push_back(std::move(attempt));
  StartWaiting();
}

void PrefillSim::Cancelled(ControlNetwork::CallId rpc) {
  const auto found = rpcs_.find(rpc);
  if (found == rpcs_.end()) return;
  const SimAttemptId id = found->second;
  rpcs_.erase(found);
  std::erase_if(waiting_, [id](const SimAttempt& waiting) { return waiting.id() == id; });
  SimPrefillCall* call = table_.Find(id);
  if (call == nullptr) return StartWaiting();
  call->engine_stopped = true;
  call->call_over = true;
  if (pushes_.Has(id)) return pushes_.Deliver(id, SendEvent::Abort{PushAbort::REASON_CANCELLED});
  GiveBlocksBack(*call);
  table_.calls().erase(id);
}

// As the engine of a Prefill call tells it the router and the push.
void PrefillSim::GiveSigns() {
  auto response = std::make_shared<PrefillResponse>();
  response->mutable_alive();
  for (const SimAttempt& attempt : waiting_) {
    if (!table_.Forgotten(attempt)) control_.Answer(attempt.call, response);
  }
  std::vector<SimAttemptId> ids;
  for (const auto& [id, call] : table_.calls()) {
    table_.Tell(call, *response);
    if (!call.call_over && !table_.Forgotten(call.attempt)) ids.push_back(id);
  }
  for (const SimAttemptId& id : ids) pushes_.Deliver(id, SendEvent::Alive{});
}

void PrefillSim::EndAll() {
  for (const auto& [rpc, id] : std::map(rpcs_)) {
    control_.End(rpc, DrainingStatus(core_.id().address(), kStagePrefill));
    Cancelled(rpc);
  }
}

void PrefillSim::StartWaiting() {
  while (!waiting_.empty()) {
    SimPrefillCall call;
    call.attempt = waiting_.front();
    const SimAttemptId id = call.attempt.id();
    if (table_.Find(id) != nullptr ||
        !blocks_.Take(call.held, call.attempt.token_ids, !call.attempt.scored)) {
      return;
    }
    waiting_.pop_front();
    call.cached_tokens = static_cast<int>(call.held.entered_spans) * blocks_.layout().block_size;
    call.computed_tokens = call.cached_tokens;
    const bool pushes = call.attempt.decode >= 0;
    const bool isolate = call.attempt.isolate;
    table_.calls().emplace(id, std::move(call));
    if (pushes) pushes_.Add(id);
    engine_.Begin(id);
    if (isolate) ++sim_.coverage.isolated;
  }
}

void PrefillSim::PromptDone(SimAttemptId id) {
  SimPrefillCall* call = table_.Find(id);
  if (call == nullptr || call->call_over) return;
  const SimAttempt& attempt = call->attempt;
  const auto tokens = static_cast<int>(attempt.token_ids.size());
  if (IsDeadly(attempt, OutputIndex(attempt))) {
    attempt.right->kills[attempt.attempt] = {.computed = tokens, .outputs = OutputIndex(attempt)};
    return sim_.kill_worker(true, core_.id().index);
  }
  std::vector<internal::v1::OutputToken> first_tokens;  // by choice
  bool all_end = true;
  for (uint32_t i = 0; i < attempt.choices; ++i) {
    PrefillResponse response;
    *response.mutable_first_token() =
        TokenAfter(attempt, attempt.grammar, attempt.key.choice() + i, tokens);
    attempt.right->gave_tokens.insert(attempt.attempt);
    NoteGuesses(attempt.right->choices[attempt.key.choice() + i], response.first_token());
    table_.Tell(*call, response);
    first_tokens.push_back(response.first_token());
    all_end &= response.first_token().ends_sequence();
  }
  if (!pushes_.Has(id)) return MaybeFinish(id);
  if (all_end) {
    return pushes_.Deliver(id, SendEvent::Abort{PushAbort::REASON_FINISHED_AT_FIRST_TOKEN});
  }
  for (const internal::v1::OutputToken& token : first_tokens) {
    pushes_.Deliver(id, SendEvent::FirstToken{token});
  }
}

// As a Prefill call tells the router.
void PrefillSim::PushFinished(SimAttemptId id, const absl::Status& status) {
  SimPrefillCall& call = *table_.Find(id);
  call.engine_stopped = true;
  call.pushed = true;
  if (status.ok()) return MaybeFinish(id);
  EndCall(call, TransferFailed(status, core_.id().address()));
}

void PrefillSim::MaybeFinish(SimAttemptId id) {
  SimPrefillCall& call = *table_.Find(id);
  const bool pushes = pushes_.Has(id);
  if (!call.computed || (pushes && !call.pushed)) return;
  PrefillResponse response;
  response.mutable_finished()->set_bytes_sent(1);
  table_.Tell(call, response);
  EndCall(call, absl::OkStatus());
  if (pushes) return;
  GiveBlocksBack(call);
  table_.calls().erase(id);
}

void PrefillSim::EndCall(SimPrefillCall& call, const absl::Status& status) {
  if (std::exchange(call.call_over, true)) return;
  rpcs_.erase(call.attempt.call);
  if (!table_.Forgotten(call.attempt)) control_.End(call.attempt.call, status);
  // However a call ends, its push is told.
  core_.process().After(1, [this, id = call.attempt.id()] {
    pushes_.Deliver(id, SendEvent::Abort{PushAbort::REASON_FAILED});
  });
}

void PrefillSim::GiveBlocksBack(SimPrefillCall& call) {
  call.blocks_back = true;
  blocks_.GiveBack(call.held);
  core_.process().After(1, [this] { StartWaiting(); });
}

void PrefillSim::Relax() {
  blocks_.Relax();
  if (core_.process().up()) StartWaiting();
}

void PrefillSim::CheckAtRest() {
  if (!idle()) {
    sim_.Violation("prefill worker ", core_.id().index, " still has ", table_.calls().size(),
                   " pushes, ", waiting_.size(), " waiting prompts and ", rpcs_.size(), " calls");
  }
  blocks_.CheckAtRest();
}

}  // namespace baton
