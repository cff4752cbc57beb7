// A sender and a receiver connected in one thread over a network that does what a seed says, with
// an oracle of the bytes.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/handoff/kv_blocks.h"
#include "common/kv/staging.h"
#include "decode_worker/payload_copier.h"
#include "decode_worker/receive_machine.h"
#include "decode_worker/staged_copier.h"
#include "prefill_worker/layer_stager.h"
#include "prefill_worker/send_machine.h"
#include "tests/support/late_backend.h"

namespace baton {

struct PairOptions {
  uint64_t seed = 0;
  int tokens = 100;
  int cached_by_sender = 0;    // prefix whose pages the sender computed earlier
  int cached_by_receiver = 0;  // prefix that is not sent
  int sender_block_size = 16;
  int receiver_block_size = 32;
  size_t max_payload_bytes = 1500;
  size_t min_payload_bytes = 600;
  uint64_t window_bytes = 6000;
  int streams = 1;
  // Chances of a fault, in percent: of each data message, but `cut` and `cancel`, which are of each
  // step.
  int duplicate = 0;
  int reorder = 0;
  int corrupt = 0;
  int drop = 0;
  int cut = 0;
  int cut_joined = 0;  // cuts of streams that joined
  int cancel_sender = 0;
  int cancel_receiver = 0;
  bool finish_at_first_token = false;
  // Pages that the staging of a side holds; 0: its blocks are in the host's memory.
  int sender_staging_pages = 0;
  int receiver_staging_pages = 0;
};

class HandoffPair {
 public:
  explicit HandoffPair(const PairOptions& options);

  // Runs until nothing more can happen, time passing where only deadlines are left.
  void Run();

  bool committed() const { return committed_; }
  std::optional<absl::Status> sender_status() const { return sender_status_; }
  const SendReport& report() const { return report_; }
  int refusals() const { return refusals_; }
  int faults() const { return faults_; }
  int streams_used() const { return static_cast<int>(carried_.size()); }  // by data

  static KvLayout LayoutOf(int block_size);

 private:
  struct ToReceiver {
    bool is_data = false;
    std::string bytes;  // an encoded PushRequest
    std::function<void()> released;
    grpc::ByteBuffer slices = {};  // where the bytes of data are from
  };
  static constexpr uint8_t kCanary = 0xA5;
  static constexpr int kPool = 40;   // blocks of each side
  using Page = std::pair<int, int>;  // layer, page

  // One side's cache.
  struct Memory {
    std::unique_ptr<LateBackend> backend;  // a device's; null without one, as the rest
    std::unique_ptr<KvCache> cache;
    std::unique_ptr<KvStaging> staging;
    std::vector<uint8_t> host;
    KvBlocks blocks;  // where the bytes are
    KvBlocks device;  // where the device has them
  };
  Memory MakeMemory(int block_size, int staging_pages);
  void MakeStagers();
  // What becomes possible when something was delivered.
  void Settle();
  void SettleSender();
  void SettleReceiver();
  void CopyIsDone(const ReceiveEvent::CopyDone& done);
  bool EngineEventIsStaged(const SendEvent::Any& event);

  void Deliver(const SendEvent::Any& event);
  void Deliver(const ReceiveEvent::Any& event);
  void Step(int choice, int stream);
  void DeliverToReceiver(int stream);
  void DeliverToSender(int stream);
  void FinishOneCopy();
  void EndStream(int stream);
  void CutStreams();
  void SendData(const SendAction::SendData& data);
  void DropQueuedData();
  void CheckCopy(const ReceiveAction::Copy& copy);
  void CheckCopyDone(const ReceiveAction::Copy& copy);
  void CheckCovered();
  void CheckSequence();
  bool Chance(int percent) { return static_cast<int>(random_() % 100) < percent; }
  static PushStreamId AtReceiver(int stream) { return static_cast<PushStreamId>(stream) + 1; }
  static int AtSender(PushStreamId stream) { return static_cast<int>(stream) - 1; }
  static uint8_t ExpectedByte(int layer, int part, int token, size_t byte);
  bool PageIsRight(int layer, int page) const;
  std::vector<std::pair<int, int>> Choices() const;  // what, stream

  const PairOptions options_;
  std::mt19937_64 random_;
  absl::Time now_ = absl::UnixEpoch();
  std::vector<int32_t> tokens_;
  Memory sender_memory_, receiver_memory_;
  KvBlocks &sender_blocks_ = sender_memory_.blocks, &receiver_blocks_ = receiver_memory_.blocks;
  std::optional<SendMachine> sender_;
  std::optional<ReceiveMachine> receiver_;

  std::vector<SendEvent::Any> engine_events_;  // events of the prefill, in order
  size_t next_engine_event_ = 0;
  struct Stream {
    bool open = false;
    std::deque<ToReceiver> to_receiver;
    std::deque<internal::v1::PushResponse> to_sender;
  };
  std::map<int, Stream> streams_;
  std::set<int> carried_;
  std::map<uint64_t, KvDataMessage> messages_;
  std::map<uint64_t, internal::v1::KvDataHeader> sent_headers_;
  std::vector<ReceiveAction::Copy> copies_;
  uint64_t next_message_id_ = 1;

  std::set<Page> in_copy_, covered_;
  // For sides in a device's memory.
  std::optional<LayerStager> stager_;
  std::deque<LayerStager::Event> sender_staged_;
  std::vector<uint32_t> generations_;
  bool sender_may_release_ = false;
  std::optional<StagedCopier> copier_;
  std::deque<StagedCopier::Event> receiver_staged_;
  std::vector<ReceiveAction::Copy> new_copies_;

  int slices_alive_ = 0;
  bool granted_ = false;
  bool committed_ = false;
  bool sender_released_ = false;
  bool receiver_released_ = false;
  int refusals_ = 0;
  int faults_ = 0;
  std::optional<absl::Status> sender_status_;
  SendReport report_;
};

}  // namespace baton
