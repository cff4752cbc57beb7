// The decode worker's end of one hand-off, as a pure state machine. It decides every write into the
// blocks. Its mirror at the prefill worker is prefill_worker/send_machine.h.
//
//   reserved -> open -> receiving -> committed -> gone
//          \_______ \____________ draining ____ /
//
// reserved:  blocks are reserved, only by their number
// open:      the push is authenticated, the engine takes the blocks
// receiving: pages fill
// committed: all KV is there and belongs to the sequence
// draining:  the push is over and copies are still in flight; the blocks are given back at the last
//            CopyDone
//
// A page is empty, in copy, or covered. Bytes are only ever copied to empty pages. After a copy the
// copier reads the bytes back from the block, and the page becomes covered when their CRC equals
// the one in the message. That guards against damage on the wire, a wrong offset of the copy itself
// and memory that changed in between; a check of the message before the copy would notice only the
// first. Until it is covered nobody else can see the page.
//
// Where the wire type is not the cache's, the copier converts. Then the CRC that is compared is
// that of the bytes on the wire, made while they are read. The copier itself checks that the block
// has the bytes that the conversion gave (payload_copier.h).
//
// The stream that opened the push carries its checkpoints and its commit; when it is lost, the push
// ends. Streams that joined carry data only. One that is lost is forgotten: its messages that are
// in copy finish, and are not acknowledged.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/handoff/kv_digest.h"
#include "common/handoff/kv_wire.h"
#include "common/handoff/kv_wire_type.h"
#include "decode_worker/receive_events.h"

namespace baton {

// Has no clock, socket, thread or randomness inside. Thread rule: one thread, the driver's.
class ReceiveMachine {
 public:
  enum class State { kReserved, kOpen, kReceiving, kCommitted, kDraining, kGone };

  ReceiveMachine(ReceiveConfig config, absl::Time now);

  std::vector<ReceiveAction::Any> Handle(const ReceiveEvent::Any& event, absl::Time now);
  // When to send Tick at the latest.
  absl::Time NextDeadline() const { return deadline_; }
  State state() const { return state_; }
  // The tokens whose pages may serve the next attempt at this request: up to the last checkpoint
  // that both ends agreed on, or what was held at the start.
  int checkpointed_tokens() const { return checkpointed_tokens_; }

 private:
  friend struct MachineState;  // a test compares states with it
  enum class Page : uint8_t { kEmpty, kCopying, kCovered };
  struct Message {
    PushStreamId stream = 0;
    uint64_t message_id = 0;
    size_t payload_bytes = 0;
    internal::v1::KvDataHeader header;
    size_t window_bytes = 0;  // payload bytes that it counts for in held_bytes_
  };
  struct CopyInFlight {
    Message message;
    std::vector<LayerTokens> ranges;
  };

  void On(const ReceiveEvent::ControlReceived& event);
  void On(const ReceiveEvent::DataReceived& event);
  void On(const ReceiveEvent::Malformed& event);
  void On(const ReceiveEvent::StreamLost& event);
  void On(const ReceiveEvent::Granted& event);
  void On(const ReceiveEvent::CopyDone& event);
  void On(const ReceiveEvent::Cancelled& event);
  void On(const ReceiveEvent::Tick&);
  void On(const ReceiveEvent::EventsLost&);

  void OnOpen(PushStreamId stream, const internal::v1::PushOpen& open);
  void OnJoin(PushStreamId stream, const internal::v1::PushJoin& join);
  // Checks key and capability of a stream. Where they are wrong the stream is turned away.
  bool Authenticate(PushStreamId stream, const internal::v1::AttemptKey& key,
                    const std::string& capability);
  bool Carries(PushStreamId stream) const { return stream == stream_ || joined_.count(stream) > 0; }
  bool HoldsTheSame(const Message& message) const;
  bool Covers(const internal::v1::KvDataHeader& header) const;
  size_t WindowBytesOf(const Message& message) const;
  void TurnAway(PushStreamId stream, internal::v1::PushRefused::Reason reason,
                const std::string& detail);
  void EndStreams();
  void ExpectMore();
  void OnCheckpoint(const internal::v1::PushCheckpoint& checkpoint);
  void OnCommit(const internal::v1::PushCommit& commit);
  static bool SameKey(const internal::v1::AttemptKey& a, const internal::v1::AttemptKey& b);
  static bool SameSecret(const std::string& a, const std::string& b);
  absl::Status CheckShape(const internal::v1::PushOpen& open) const;
  absl::Status CheckPageHashes(const internal::v1::PushOpen& open,
                               const std::string& stored_numerics) const;
  absl::Status CheckHeader(const internal::v1::KvDataHeader& header, size_t payload_bytes) const;
  absl::Status CheckFirstTokens(const internal::v1::PushCommit& commit) const;
  void Place(Message message);
  void Acknowledge(const Message& message);
  void AskAgain(const Message& message);
  bool Covered(int first_layer, int end_layer, int first_page, int end_page) const;
  bool CoveredBefore(int end_token) const;
  std::string Digest(int end_token, absl::Span<const internal::v1::OutputToken> first_tokens);
  void Refuse(PushStreamId stream, internal::v1::PushRefused::Reason reason,
              const std::string& detail, uint64_t sequence_number = 0);
  void Fail(internal::v1::PushRefused::Reason reason, absl::Status status);
  // As Fail, before a push was opened.
  void EndReservation(absl::Status status);
  void Drain();
  Page& PageAt(int layer, int page) {
    return pages_[static_cast<size_t>(layer) * static_cast<size_t>(crcs_.pages()) +
                  static_cast<size_t>(page)];
  }
  Page PageAt(int layer, int page) const {
    return const_cast<ReceiveMachine*>(this)->PageAt(layer, page);
  }

  const ReceiveConfig config_;
  const int token_count_;
  State state_ = State::kReserved;
  absl::Time now_;
  absl::Time deadline_;
  std::vector<ReceiveAction::Any> actions_;

  PushStreamId stream_ = 0;        // the push's own stream; 0 before `open`
  std::set<PushStreamId> joined_;  // joined streams: at most kMaxKvStreams - 1
  absl::Time push_deadline_;       // deadline of the commit; set in `open`
  KvWireFormat wire_;              // wire format of this push; set in `open`
  bool exact_ = false;
  int start_token_ = 0;
  int checkpointed_tokens_ = 0;
  bool resumable_ = true;    // false when the request ends with this attempt
  std::vector<Page> pages_;  // [layers][pages]
  PageCrcTable crcs_;        // CRCs of the covered pages
  KvDigester digester_;
  uint64_t held_bytes_ = 0;  // payload bytes of the messages in copies_ and waiting_
  uint64_t next_copy_id_ = 1;
  std::map<uint64_t, CopyInFlight> copies_;
  std::vector<Message> waiting_;  // wait for a copy into one of their pages; held_bytes_ bounds it
  std::map<uint64_t, int> refusals_;  // refusals by sequence number; bounded, see AskAgain
};

}  // namespace baton
