// A decode worker of the simulated cluster: a real fence, block pool, prefix cache and KvReceivers,
// memory that they write to, and an engine that decodes what was committed.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "common/kv/block_pool.h"
#include "common/kv/prefix_cache.h"
#include "common/kv/retained_prefixes.h"
#include "common/rpc/kv_blocks.h"
#include "decode_worker/attempt_fence.h"
#include "decode_worker/kv_receiver.h"
#include "decode_worker/payload_copier.h"
#include "tests/simulation/network.h"
#include "tests/simulation/sim.h"

namespace baton {

class DecodeSim {
 public:
  // What the router hears.
  struct Callbacks {
    std::function<void(const SimAttempt&)> accepted;
    std::function<void(const SimAttempt&)> committed;
    std::function<void(const SimAttempt&, int output_index, int32_t token)> token;
    std::function<void(const SimAttempt&, const absl::Status&)> failed;
  };
  DecodeSim(Sim& sim, Network& network, int index, Callbacks callbacks);
  ~DecodeSim();

  SimProcess& process() { return process_; }
  // The router's calls.
  void Start(const SimAttempt& attempt);
  void Cancel(const SimAttempt& attempt,
              internal::v1::PushRefused::Reason reason = internal::v1::PushRefused::REASON_ABORTED);
  // The network's.
  void Request(Network::StreamId stream, const std::string& bytes);
  void Lost(Network::StreamId stream);

  // Faults.
  void Crash();
  void Restart();
  void Squeeze();
  void Relax();

  void CheckAtRest();

 private:
  using Key = std::pair<int, uint32_t>;  // request, attempt
  using Page = std::pair<int, int>;      // layer, page
  struct Call {
    SimAttempt attempt;
    std::unique_ptr<KvReceiver> receiver;
    BlockPool::Promise promise;
    std::vector<BlockPool::Block> blocks;
    KvBlocks memory;
    std::vector<uint32_t> generations;  // [block]
    int start_token = 0;
    size_t shared_blocks = 0;  // the first ones, pinned: never written
    std::map<uint64_t, KvDataMessage> messages;
    std::map<uint64_t, KvReceiver::Copy> copies;
    std::map<uint64_t, internal::v1::KvDataHeader> headers;  // by sequence number, as received
    std::set<Page> in_copy, right;                           // right: copied well, never again
    std::set<Network::StreamId> streams;
    uint64_t highest_number = 0;  // of a data message received
    bool granted = false;
    bool committed = false;
    bool cancelled = false;
    bool failed = false;
    bool released = false;
    int decoded_tokens = 0;  // beyond the attempt's own
    Micros timer = -1;
  };

  Call* Find(Key key);
  std::unique_ptr<KvReceiver> MakeReceiver(const SimAttempt& attempt);
  void Open(Network::StreamId stream, const std::string& bytes);
  void Deliver(Key key, const KvReceiver::Event& event);
  void Execute(Key key, Call& call, const KvReceiver::Action& action);
  void OnSend(Call& call, const KvReceiver::Send& send);
  void Grant(Key key);
  void BeginCopy(Key key, Call& call, const KvReceiver::Copy& copy);
  void FinishCopy(Key key, uint64_t copy_id);
  void Commit(Key key, Call& call, const KvReceiver::CommitSequence& commit);
  void Decode(Key key);
  void Retain(const Call& call, int tokens);
  void Release(Call& call);
  void Arm(Key key, Call& call);
  bool MayWrite(const Call& call, const KvReceiver::Run& run);
  void CheckContent(const Call& call, int tokens, const char* when);

  Sim& sim_;
  Network& network_;
  const int index_;
  const Callbacks callbacks_;
  SimProcess process_;
  KvLayout layout_;
  uint64_t window_bytes_ = 0;
  std::vector<uint8_t> memory_;
  std::vector<const Call*> owners_;  // [block]: who may write into it
  std::optional<AttemptFence> fence_;
  std::optional<BlockPool> pool_;
  std::optional<PrefixCache> prefix_cache_;
  std::optional<RetainedPrefixes> retained_;
  std::map<Key, Call> calls_;
  std::map<Network::StreamId, Key> streams_;
  uint64_t next_message_id_ = 1;
  std::vector<BlockPool::Block> squeezed_;
};

}  // namespace baton
