#include "tests/simulation/decode_worker/decode_sim.h"

namespace baton {

DecodeSim::DecodeSim(Sim& sim, Network& network, ControlNetwork& control, int index)
    : sim_(sim),
      blocks_(sim, SimLayout(16 * static_cast<int>(sim.random.Between(1, 3)))),
      core_(
          sim, control, {false, index}, blocks_.layout().block_size, [this] { return Load(); },
          [this]() -> PrefixPages& { return blocks_.prefix_cache().pages(); }),
      table_(sim, control),
      pushes_(sim, network, core_.process(), blocks_, table_, CallsOfPushes()),
      audit_(sim, core_, blocks_, [this](const std::string& source) { calls_.Distrust(source); }),
      engine_(sim, core_, blocks_, table_,
              [this](SimAttemptId id, uint32_t choice) { calls_.EndChoice(id, choice); }),
      local_prefill_(sim, core_, blocks_, table_, engine_),
      calls_(sim, control, core_, {blocks_, table_, engine_, local_prefill_, pushes_, audit_}) {
  Serve(control);
  core_.SetGiveSigns([this] { calls_.GiveSigns(); });
  Restart();
}

DecodeSim::~DecodeSim() { Crash(); }

DecodePushes::Calls DecodeSim::CallsOfPushes() {
  return {
      .take_blocks = [this](SimAttemptId id) { return calls_.TakeBlocks(id); },
      .commit = [this](SimAttemptId id,
                       const ReceiveAction::CommitSequence& commit) { calls_.Commit(id, commit); },
      .failed = [this](SimAttemptId id, const absl::Status& why) { calls_.Fail(id, why); },
      .release = [this](
                     SimAttemptId id,
                     const ReceiveAction::ReleaseBlocks& release) { calls_.Release(id, release); }};
}

void DecodeSim::Serve(ControlNetwork& control) {
  using CallId = ControlNetwork::CallId;
  control.AddWorker(core_.id(),
                    {.process = &core_.process(),
                     .opened =
                         [this](CallId call, ControlNetwork::Method method) {
                           if (method == ControlNetwork::Method::kWatch) core_.Watched(call);
                         },
                     .received =
                         [this](CallId call, const google::protobuf::Message& message) {
                           if (core_.IsWatch(call)) return;
                           calls_.Received(
                               call, static_cast<const internal::v1::DecodeRequest&>(message));
                         },
                     .cancelled =
                         [this](CallId call) {
                           core_.WatchOver(call);
                           calls_.Cancelled(call);
                         }});
}

void DecodeSim::Restart() {
  core_.Boot();
  table_.Boot();
  audit_.Boot();
  blocks_.Boot(core_.prefix_identity());
}

void DecodeSim::Crash() {
  core_.Crash();
  pushes_.Crash();
  calls_.Crash();
  table_.Crash();
  blocks_.Crash();
}

void DecodeSim::Relax() {
  blocks_.Relax();
  if (core_.process().up()) calls_.GoOn();
}

WorkerCore::Load DecodeSim::Load() const {
  WorkerCore::Load load;
  for (const auto& [id, call] : table_.calls()) {
    if (call.committed || (call.local && call.accepted)) load.computed.insert(id.first);
    if (call.released) continue;
    const bool computes = call.local && call.accepted && !call.committed;
    load.running += computes ? 1 : static_cast<uint32_t>(call.parted.size());
    if (call.paused) continue;
    load.runnable += computes ? 1 : 0;
    for (const auto& [number, choice] : call.parted) load.runnable += choice.preempted ? 0 : 1;
  }
  load.waiting = static_cast<uint32_t>(calls_.waiting());
  load.free_blocks = static_cast<uint32_t>(blocks_.pool().available_blocks());
  return load;
}

int DecodeSim::HeldTokens(const std::vector<int32_t>& prompt) const {
  return blocks_.TokensOf(blocks_.Cached(prompt, {.handed_off = static_cast<int>(prompt.size())}));
}

void DecodeSim::CheckAtRest() {
  if (!table_.calls().empty() || pushes_.streams() > 0) {
    sim_.Violation("decode worker ", core_.id().index, " still has ", table_.calls().size(),
                   " attempts and ", pushes_.streams(), " streams");
  }
  blocks_.CheckAtRest(core_.id().index);
}

}  // namespace baton
