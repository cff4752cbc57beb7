// A decode worker of the simulated cluster: a real fence, block pool, prefix cache and
// ReceiveMachines, memory that they write to, and an engine that decodes what was committed.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "baton/internal/v1/decode.pb.h"
#include "common/handoff/kv_blocks.h"
#include "common/kv/block_pool.h"
#include "common/kv/prefix_cache.h"
#include "common/kv/retained_prefixes.h"
#include "decode_worker/attempt_fence.h"
#include "decode_worker/payload_copier.h"
#include "decode_worker/receive_machine.h"
#include "tests/simulation/network.h"
#include "tests/simulation/worker_core.h"

namespace baton {

class DecodeSim {
 public:
  DecodeSim(Sim& sim, Network& network, ControlNetwork& control, int index);
  ~DecodeSim();

  WorkerCore& core() { return core_; }
  SimProcess& process() { return core_.process(); }
  // The network's.
  void Request(Network::StreamId stream, const std::string& bytes);
  void Lost(Network::StreamId stream);

  // Faults.
  void Crash();
  void Restart();
  void Squeeze();
  void Relax();

  // Ends what runs, as a worker does whose time to drain is up.
  void EndAll();

  bool idle() const { return calls_.empty() && streams_.empty() && retained_->size() == 0; }
  void CheckAtRest();
  // The tokens of a prompt that its prefix cache holds.
  int HeldTokens(const std::vector<int32_t>& prompt) const;

 private:
  using Key = std::pair<int, uint32_t>;  // request, attempt
  using Page = std::pair<int, int>;      // layer, page
  // What a sequence has of the cache.
  struct Holding {
    BlockPool::Reservation reservation;
    std::vector<BlockPool::Block> blocks;
    KvBlocks memory;
    std::vector<uint32_t> generations;  // [block]
    size_t shared_blocks = 0;           // the first ones, pinned: never written
  };
  // A choice that decodes: a sequence of its own.
  struct Choice {
    uint64_t order = 0;  // order of arrival
    Holding held;
    int decoded_tokens = 0;  // beyond the attempt's own
    bool preempted = false;
    bool stepping = false;  // a step is on its way
  };
  struct Call {
    SimAttempt attempt;
    uint64_t order = 0;                        // order of arrival
    bool local = false;                        // its prompt is computed here
    std::unique_ptr<ReceiveMachine> receiver;  // null: local, or it waits for its reservation
    std::set<uint32_t> going;                  // choices that have not ended
    std::map<uint32_t, Choice> parted;         // choices that go on alone after the commit
    Holding held;                              // until they part
    int start_token = 0;
    std::map<uint64_t, KvDataMessage> messages;
    std::map<uint64_t, ReceiveAction::Copy> copies;
    std::map<uint64_t, internal::v1::KvDataHeader> headers;  // by sequence number, as received
    std::set<Page> in_copy, right;                           // right: copied well, never again
    std::set<Network::StreamId> streams;
    uint64_t highest_number = 0;  // highest number of a data message received
    bool accepted = false;
    bool granted = false;
    bool committed = false;  // decodes
    bool call_over = false;  // the router's
    bool cancelled = false;
    bool failed = false;
    bool released = false;
    bool paused = false;
    int computed_tokens = 0;  // computed tokens of a local prompt
    Micros timer = -1;
  };

  // The router's calls.
  void Opened(ControlNetwork::CallId call, ControlNetwork::Method method);
  void Received(ControlNetwork::CallId call, const internal::v1::DecodeRequest& request);
  void Cancelled(ControlNetwork::CallId call);
  void Start(ControlNetwork::CallId rpc, const internal::v1::DecodeStart& start);
  void AdmitWaiting();
  void Tell(const Call& call, const internal::v1::DecodeResponse& response);
  // The router's call ends, and the attempt with it.
  void End(Key key, const absl::Status& status,
           internal::v1::PushRefused::Reason reason = internal::v1::PushRefused::REASON_ABORTED);
  void EndCall(Call& call, const absl::Status& status);
  void EndAttempt(Key key, internal::v1::PushRefused::Reason reason);
  void EndChoice(Key key, uint32_t number);

  // The engine.
  WorkerCore::Load Load() const;
  bool MustWait(Key key) const;
  int TakeCached(Holding& held, const std::vector<int32_t>& blocks);
  void TakeOwn(Holding& held, BlockPool::Block block);
  void GiveBack(Holding& held);
  void EnterBlocks(Call& call);
  void ComputeChunk(Key key);
  void TellProgress(const Call& call);  // progress of its local prefill
  int BlocksToStart(const Call& call) const;
  void DropChoice(Call& call, uint32_t number);
  void BeginDecoding(Key key);
  void Part(Call& call);
  void Schedule(Key key, uint32_t number);
  void Step(Key key, uint32_t number);
  bool HasRoom(Call& call, Choice& choice, int tokens);
  void Preempt(Call& call, uint32_t number);
  void GoOnWithPreempted();
  bool Recompute(Call& call, uint32_t number);
  void WakeWaiting();
  static std::vector<int32_t> Tokens(const Call& call, uint32_t number);

  Call* Find(Key key);
  Choice* FindChoice(Key key, uint32_t number);
  std::unique_ptr<ReceiveMachine> MakeReceiver(const SimAttempt& attempt);
  void Open(Network::StreamId stream, const std::string& bytes);
  void Deliver(Key key, const ReceiveEvent::Any& event);
  void Execute(Key key, Call& call, const ReceiveAction::Any& action);
  void OnSend(Call& call, const ReceiveAction::Send& send);
  void Grant(Key key);
  void BeginCopy(Key key, Call& call, const ReceiveAction::Copy& copy);
  void FinishCopy(Key key, uint64_t copy_id);
  void Commit(Key key, Call& call, const ReceiveAction::CommitSequence& commit);
  void Retain(const Call& call, int tokens);
  void Release(Call& call);
  void Arm(Key key, Call& call);
  bool MayWrite(const Call& call, const LayerTokens& range);
  void CheckContent(const SimAttempt& attempt, uint32_t choice, const KvBlocks& memory, int tokens,
                    const char* when);
  void CheckMayDecode(const Choice& choice, int token);

  Sim& sim_;
  Network& network_;
  ControlNetwork& control_;
  const int index_;
  KvLayout layout_;
  WorkerCore core_;
  uint64_t window_bytes_ = 0;
  Micros receive_timeout_ = 0;
  std::vector<uint8_t> memory_;
  std::vector<const Holding*> owners_;  // [block]: who may write into it
  std::optional<AttemptFence> fence_;
  std::optional<BlockPool> pool_;
  std::optional<PrefixCache> prefix_cache_;
  std::optional<RetainedPrefixes> retained_;
  std::map<Key, Call> calls_;
  std::map<ControlNetwork::CallId, Key> rpcs_;  // that have not ended
  std::deque<Key> waiting_;                     // for their reservation
  uint64_t next_order_ = 1;
  std::map<Network::StreamId, Key> streams_;
  uint64_t next_message_id_ = 1;
  std::vector<BlockPool::Block> squeezed_;
};

}  // namespace baton
