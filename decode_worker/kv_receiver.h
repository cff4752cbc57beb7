// The decode worker's end of one hand-off, as a pure state machine. It decides every write into the
// blocks.
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
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/handoff/kv_digest.h"
#include "common/handoff/kv_wire.h"
#include "common/handoff/kv_wire_type.h"
#include "common/kv/layout.h"

namespace baton {

// Bounds of one push in bytes and time. The state `draining` lasts as long as the copies in flight.
struct KvReceiverLimits {
  uint64_t window_bytes = uint64_t{16} << 20;              // most unacknowledged payload bytes
  absl::Duration reservation_timeout = absl::Minutes(10);  // from the reservation to the open
  absl::Duration open_timeout = absl::Seconds(30);         // until the engine has taken the blocks
  absl::Duration receive_timeout = absl::Seconds(30);      // from one message to the next
  absl::Duration push_timeout = absl::Minutes(10);         // from the open to the commit
};

// Has no clock, socket, thread or randomness inside. Thread rule: one thread, the driver's.
class KvReceiver {
 public:
  struct Config {
    internal::v1::AttemptKey key;
    std::string capability;                // 16 bytes that the push must show
    internal::v1::ModelIdentity identity;  // this worker's identity
    internal::v1::KvShape shape;           // this worker's KV shape
    KvLayout layout;                       // layout of this worker's cache
    std::vector<int32_t> token_ids;        // the whole sequence
    std::vector<uint64_t> page_hashes;     // PageHashes of token_ids under this worker's numerics
    std::string cache_salt = {};           // the salt in page_hashes
    bool strict_kv_dtype = false;          // whether to refuse another KV type than this worker's
    int prompt_length = 0;                 // tokens of the original prompt
    int choices = 1;                       // number of choices from key.choice on
    int vocab_size = 0;
    KvReceiverLimits limits;
  };
  // Names the stream that a message came on; answers go to the same stream. The driver draws it; it
  // is never 0.
  using StreamId = uint64_t;

  // Events.
  struct ControlReceived {  // any message but data
    StreamId stream = 0;
    internal::v1::PushRequest message;
  };
  struct DataReceived {
    StreamId stream = 0;
    uint64_t message_id = 0;  // drawn by the driver, which holds the message until Drop
    std::string header;       // the encoded KvDataHeader
    uint32_t header_crc32c = 0;
    size_t payload_bytes = 0;
  };
  struct Malformed {  // a message that could not be read
    StreamId stream = 0;
    std::string detail;
  };
  struct StreamLost {
    StreamId stream = 0;
  };
  struct Granted {        // the answer to TakeBlocks
    int start_token = 0;  // a multiple of 16: the KV before it is held already
  };
  struct CopyDone {
    uint64_t copy_id = 0;
    bool ok = false;
    // The CRCs to compare with the header's, page by page of the copy's ranges in order. They are
    // CRCs of the bytes in the block, or, where the copy converted, of the bytes on the wire.
    std::vector<uint32_t> page_crcs;
    std::vector<uint32_t> block_crcs;  // CRCs of the bytes in the block where the copy converted
  };
  struct Cancelled {  // the attempt ends: its call is over, or a higher attempt arrived
    internal::v1::PushRefused::Reason reason = internal::v1::PushRefused::REASON_ABORTED;
  };
  struct Tick {};
  struct EventsLost {};  // more came on the streams than the driver holds, so some were dropped
  using Event = std::variant<ControlReceived, DataReceived, Malformed, StreamLost, Granted,
                             CopyDone, Cancelled, Tick, EventsLost>;

  // K and V of tokens [first_token, first_token + token_count) in one layer: whole pages, except at
  // the sequence's end.
  struct LayerTokens {
    int layer = 0;
    int first_token = 0;
    int token_count = 0;
  };
  // Actions, to be executed in order.
  struct TakeBlocks {
    // The numerics that K and V are made under; empty where the bytes are those that this worker
    // would compute. Held pages serve as their prefix only if they have the same numerics.
    std::string numerics;
  };
  struct Send {
    StreamId stream = 0;
    internal::v1::PushResponse message;
  };
  struct EndStream {
    StreamId stream = 0;
  };
  // Answered by CopyDone. The payload is [layer][K, V][token] of the header's layers and tokens; of
  // it only `ranges` are to be written.
  struct Copy {
    uint64_t copy_id = 0;
    uint64_t message_id = 0;
    internal::v1::KvDataHeader header;
    std::vector<LayerTokens> ranges;  // ascending by layer, then token
    KvType wire_type;                 // type of the payload
  };
  struct Drop {  // the message is not needed any more
    uint64_t message_id = 0;
  };
  struct CommitSequence {
    std::vector<internal::v1::OutputToken> first_tokens;  // by choice; not all end their choice
    bool exact = false;  // whether the KV is bit for bit what this worker would compute
  };
  // The attempt cannot be committed any more. Comes at most once, and never after CommitSequence.
  struct Failed {
    absl::Status status;
  };
  // The reservation or the blocks are to be given back; no copy is in flight. Comes at most once.
  struct ReleaseBlocks {
    // Set where the attempt broke and the request goes on: the pages before this token may serve
    // the next attempt.
    std::optional<int> resume_tokens;
  };
  using Action =
      std::variant<TakeBlocks, Send, EndStream, Copy, Drop, CommitSequence, Failed, ReleaseBlocks>;

  enum class State { kReserved, kOpen, kReceiving, kCommitted, kDraining, kGone };

  KvReceiver(Config config, absl::Time now);

  std::vector<Action> Handle(const Event& event, absl::Time now);
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
    StreamId stream = 0;
    uint64_t message_id = 0;
    size_t payload_bytes = 0;
    internal::v1::KvDataHeader header;
    size_t window_bytes = 0;  // payload bytes that it counts for in held_bytes_
  };
  struct CopyInFlight {
    Message message;
    std::vector<LayerTokens> ranges;
  };

  void On(const ControlReceived& event);
  void On(const DataReceived& event);
  void On(const Malformed& event);
  void On(const StreamLost& event);
  void On(const Granted& event);
  void On(const CopyDone& event);
  void On(const Cancelled& event);
  void On(const Tick&);
  void On(const EventsLost&);

  void OnOpen(StreamId stream, const internal::v1::PushOpen& open);
  void OnJoin(StreamId stream, const internal::v1::PushJoin& join);
  // Checks key and capability of a stream. Where they are wrong the stream is turned away.
  bool Authenticate(StreamId stream, const internal::v1::AttemptKey& key,
                    const std::string& capability);
  bool Carries(StreamId stream) const { return stream == stream_ || joined_.count(stream) > 0; }
  bool HoldsTheSame(const Message& message) const;
  bool Covers(const internal::v1::KvDataHeader& header) const;
  size_t WindowBytesOf(const Message& message) const;
  void TurnAway(StreamId stream, internal::v1::PushRefused::Reason reason,
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
  void Refuse(StreamId stream, internal::v1::PushRefused::Reason reason, const std::string& detail,
              uint64_t sequence_number = 0);
  void Fail(internal::v1::PushRefused::Reason reason, absl::Status status);
  // As Fail, before a push was opened.
  void EndReservation(absl::Status status);
  void Drain();
  Page& PageAt(int layer, int page) {
    return pages_[static_cast<size_t>(layer) * static_cast<size_t>(crcs_.pages()) +
                  static_cast<size_t>(page)];
  }
  Page PageAt(int layer, int page) const {
    return const_cast<KvReceiver*>(this)->PageAt(layer, page);
  }

  const Config config_;
  const int token_count_;
  State state_ = State::kReserved;
  absl::Time now_;
  absl::Time deadline_;
  std::vector<Action> actions_;

  StreamId stream_ = 0;        // the push's own stream; 0 before `open`
  std::set<StreamId> joined_;  // joined streams: at most kMaxKvStreams - 1
  absl::Time push_deadline_;   // deadline of the commit; set in `open`
  KvWireFormat wire_;          // wire format of this push; set in `open`
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
