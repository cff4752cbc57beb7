// A receiver with memory behind it, for fuzzers: ends the process when the receiver breaks a
// reservation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "common/handoff/kv_blocks.h"
#include "decode_worker/payload_copier.h"
#include "decode_worker/receive_machine.h"

namespace baton {

class ReceiverHarness {
 public:
  static constexpr int kTokens = 50;  // pages of 16, 16, 16 and 2
  static constexpr int kLayers = 2;

  ReceiverHarness();

  void Do(const ReceiveEvent::Any& event);
  // A message as it comes off the network.
  void Arrive(PushStreamId stream, const std::string& bytes);
  // The engine's answer, when it was asked for blocks.
  void Grant(int start_token);
  // The copy with that index of those in flight; `damage` changes what it has written.
  void FinishCopy(size_t index, bool ok, bool damage);
  void Pass(absl::Duration time);
  // Ends everything: the blocks must be back and no message held.
  void End();

  // What a sender that holds the right KV says.
  internal::v1::PushRequest Open() const;
  internal::v1::PushRequest Checkpoint(int end_token) const;
  internal::v1::PushRequest Commit() const;
  internal::v1::KvDataHeader Header(int layer, int layers, int first_page, int end_page,
                                    uint64_t sequence_number) const;
  std::string Data(const internal::v1::KvDataHeader& header) const;

 private:
  using Page = std::pair<int, int>;  // layer, page

  void Execute(const ReceiveAction::Any& action);
  void OnCopy(const ReceiveAction::Copy& copy);
  void OnAck(uint64_t sequence_number);
  void OnCommit();
  bool InPlace(const internal::v1::KvDataHeader& header, std::map<Page, uint32_t>& pages) const;
  void CheckMemory() const;
  uint32_t TargetCrc(const Page& page) const;

  absl::Time now_ = absl::UnixEpoch();
  KvLayout layout_;
  std::vector<uint8_t> source_memory_, target_memory_;
  KvBlocks source_, target_;
  ReceiveConfig config_;
  std::optional<ReceiveMachine> receiver_;
  std::map<uint64_t, KvDataMessage> messages_;
  std::map<uint64_t, std::vector<internal::v1::KvDataHeader>> headers_;  // by sequence number
  std::vector<ReceiveAction::Copy> copies_;
  std::set<Page> in_copy_;
  std::map<Page, uint32_t> covered_;  // CRC of what was accepted
  uint64_t next_message_ = 1;
  int start_token_ = 0;
  bool asked_ = false;
  bool granted_ = false;
  bool committed_ = false;
  bool failed_ = false;
  bool released_ = false;
};

}  // namespace baton
