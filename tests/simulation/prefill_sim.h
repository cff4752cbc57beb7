// A prefill worker of the simulated cluster: a real block pool, prefix cache and SendMachines,
// memory with KV in it, and an engine that takes its time.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "baton/internal/v1/prefill.pb.h"
#include "common/handoff/kv_blocks.h"
#include "common/kv/block_pool.h"
#include "common/kv/prefix_cache.h"
#include "prefill_worker/send_machine.h"
#include "tests/simulation/network.h"
#include "tests/simulation/worker_core.h"

namespace baton {

class PrefillSim {
 public:
  PrefillSim(Sim& sim, Network& network, ControlNetwork& control, int index);
  ~PrefillSim();

  WorkerCore& core() { return core_; }
  SimProcess& process() { return core_.process(); }
  // The network's.
  void Answer(Network::StreamId stream, const std::string& bytes);
  void Ended(Network::StreamId stream, const absl::Status& status);

  // Faults.
  void Crash();
  void Restart();
  // Takes most of the free blocks and writes into them; gives them back.
  void Squeeze();
  void Relax();

  // Ends what runs, as a worker does whose time to drain is up.
  void EndAll();

  bool idle() const { return pushes_.empty() && waiting_.empty() && calls_.empty(); }
  // Whether nothing is left of any attempt.
  void CheckAtRest();
  // The tokens of a prompt that its prefix cache holds.
  int HeldTokens(const std::vector<int32_t>& prompt) const;

 private:
  using Key = std::pair<int, uint32_t>;  // request, attempt
  struct Push {
    SimAttempt attempt;
    std::unique_ptr<SendMachine> sender;  // null: nothing is to be pushed
    std::vector<BlockPool::Block> blocks;
    std::vector<BlockPool::Block>
        replaced;               // by equal ones of the prefix cache; the peer reads them
    size_t entered_blocks = 0;  // in the prefix cache
    KvBlocks memory;
    std::vector<uint32_t> generations;  // [block]
    int cached_tokens = 0;
    int computed_tokens = 0;
    int live_messages = 0;
    bool engine_stopped = false;
    bool computed = false;
    bool pushed = false;
    bool call_over = false;
    bool blocks_back = false;
    Micros timer = -1;
    std::map<int, Network::StreamId> streams;  // that are open, by the sender's number
  };

  // The router's calls.
  void Opened(ControlNetwork::CallId call, ControlNetwork::Method method);
  void Received(ControlNetwork::CallId call, const internal::v1::PrefillRequest& request);
  void Cancelled(ControlNetwork::CallId call);
  void Tell(const Push& push, const internal::v1::PrefillResponse& response);
  void EndCall(Push& push, const absl::Status& status);
  void MaybeFinish(Key key);
  WorkerCore::Load Load() const;

  void StartWaiting();
  bool TakeBlocks(Push& push);
  void Compute(Key key, int layer);
  void ComputeLayer(Key key, Push& push, int layer);
  void ChunkDone(Key key);
  void PromptDone(Key key);
  bool MustWait(Key key) const;
  void GiveBlocksBack(Push& push);
  void Deliver(Key key, const SendEvent::Any& event);
  void Execute(Push& push, const SendAction::Any& action);
  void PushFinished(Push& push, const absl::Status& status);
  void SendData(Push& push, const SendAction::SendData& data);
  std::string Flatten(Key key, const internal::v1::KvDataHeader& header);
  void Arm(Key key, Push& push);
  SendEvent::LayerReady Ready(const Push& push, int layer, int first, int end) const;
  uint32_t& PageCrc(int32_t block, int layer, int page_in_block);
  Push* Find(Key key);
  void CheckUnused(const BlockPool::Block& block);
  bool Intact(const Push& push) const;
  void MaybeRot(const Push& push, int layer, int token);

  Sim& sim_;
  Network& network_;
  ControlNetwork& control_;
  const int index_;
  KvLayout layout_;
  WorkerCore core_;
  size_t max_payload_bytes_ = 0;
  size_t min_payload_bytes_ = 0;
  int max_streams_ = 1;
  std::vector<uint8_t> memory_;
  std::vector<uint32_t> page_crcs_;  // [block][layer][page]
  std::vector<int> live_slices_;     // [block]: messages that point into it
  std::optional<BlockPool> pool_;
  std::optional<PrefixCache> prefix_cache_;
  std::deque<SimAttempt> waiting_;  // for blocks
  std::map<Key, Push> pushes_;
  std::map<ControlNetwork::CallId, Key> calls_;  // that have not ended
  std::map<Network::StreamId, std::pair<Key, int>> streams_;
  std::vector<BlockPool::Block> squeezed_;
};

}  // namespace baton
