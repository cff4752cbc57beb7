// The decode worker's end of one hand-off, as a pure state machine: it owns every write into the
// blocks.
//
//   promised -> open -> receiving -> committed -> gone
//          \_______ \____________ draining ____ /
//
// promised: blocks are only counted. open: the push is authenticated, the blocks are being taken.
// receiving: pages fill. committed: everything is there and belongs to the sequence. draining: the
// push is over, copies are still in flight; the blocks are given back at the last CopyDone.
//
// A page is empty, in copy, or covered. Bytes are only ever copied to empty pages; a page becomes
// covered when the CRC of the bytes as they lie in the block after the copy, read back by the
// copier, equals the one in the message: that guards against damage on the wire, a wrong offset of
// the copy itself, and memory that changed in between, where a check of the message before the copy
// would see only the first. Until then nobody else can see the page.
//
// Where the wire type is not the cache's, the copier converts, and the CRC compared is that of the
// bytes on the wire, taken as they are read; that the block has what came out of the conversion is
// the copier's own check (payload_copier.h).
//
// The stream that opened the push carries its checkpoints and its commit, and ends it when it is
// lost. Streams that joined carry data only; one that is lost is forgotten: its messages in copy
// finish, and nobody hears of them.
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
#include "common/kv/layout.h"
#include "common/rpc/kv_digest.h"
#include "common/rpc/kv_wire.h"
#include "common/rpc/kv_wire_type.h"

namespace baton {

// Bounds of one push in bytes and time; the time in `draining` is that of the copies in flight.
struct KvReceiverLimits {
  uint64_t window_bytes = uint64_t{16} << 20;  // unacknowledged payload
  absl::Duration promise_timeout = absl::Minutes(10);
  absl::Duration open_timeout = absl::Seconds(30);     // the engine takes the promised blocks
  absl::Duration receive_timeout = absl::Seconds(30);  // without any message
  absl::Duration push_timeout = absl::Minutes(10);     // from open to commit, whatever comes
};

// No clock, socket, thread or randomness inside; the driver's one thread calls it.
class KvReceiver {
 public:
  struct Config {
    internal::v1::AttemptKey key;
    std::string capability;                // 16 bytes that the push must show
    internal::v1::ModelIdentity identity;  // this worker's
    internal::v1::KvShape shape;           // this worker's
    KvLayout layout;                       // of this worker's cache
    std::vector<int32_t> token_ids;        // of the whole sequence
    std::vector<uint64_t> page_hashes;     // of token_ids, as PageHashes makes them
    std::string cache_salt = {};           // of page_hashes
    bool strict_kv_dtype = false;          // another KV type than this worker's is refused
    int prompt_length = 0;                 // of the original prompt
    int choices = 1;                       // from key.choice on
    int vocab_size = 0;
    KvReceiverLimits limits;
  };
  // Which stream of the push a message came on, drawn by the driver, never 0. Answers go to the
  // same.
  using StreamId = uint64_t;

  // Events.
  struct ControlReceived {  // anything but data
    StreamId stream = 0;
    internal::v1::PushRequest message;
  };
  struct DataReceived {
    StreamId stream = 0;
    uint64_t message_id = 0;  // drawn by the driver, which holds the message until Drop
    std::string header;       // KvDataHeader as encoded
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
    int start_token = 0;  // a multiple of 16: what is before is held already
  };
  struct CopyDone {
    uint64_t copy_id = 0;
    bool ok = false;
    // To compare with the header's, for each run's pages in order: of the bytes in place, or of
    // those on the wire where the copy converted them.
    std::vector<uint32_t> page_crcs;
    std::vector<uint32_t> block_crcs;  // of the bytes in place where the copy converted
  };
  struct Cancelled {  // the attempt ends: its call is over, or a higher attempt arrived
    internal::v1::PushRefused::Reason reason = internal::v1::PushRefused::REASON_ABORTED;
  };
  struct Tick {};
  using Event = std::variant<ControlReceived, DataReceived, Malformed, StreamLost, Granted,
                             CopyDone, Cancelled, Tick>;

  // Tokens [first_token, first_token + token_count) of one layer, keys and values: whole pages but
  // for the sequence's last.
  struct Run {
    int layer = 0;
    int first_token = 0;
    int token_count = 0;
  };
  // Actions, to be executed in order.
  struct TakeBlocks {
    // How K and V were made and travel, where they are not the bytes that this worker would have
    // computed. Held pages of other numerics cannot stand before them.
    std::string numerics;
  };
  struct Send {
    StreamId stream = 0;
    internal::v1::PushResponse message;
  };
  struct EndStream {
    StreamId stream = 0;
  };
  // Answered by CopyDone. The payload is [layer][K, V][token] of the header's ranges; `runs` are
  // the parts of it to write.
  struct Copy {
    uint64_t copy_id = 0;
    uint64_t message_id = 0;
    internal::v1::KvDataHeader header;
    std::vector<Run> runs;  // ascending by layer, then token
    KvWireType wire_type;   // of the payload
  };
  struct Drop {  // the message is not needed any more
    uint64_t message_id = 0;
  };
  struct CommitSequence {
    std::vector<internal::v1::OutputToken> first_tokens;  // by choice; some go on
    bool exact = false;  // made under the numerics of this worker, which promise the same bits
  };
  struct Failed {  // once at most, never after CommitSequence: the attempt cannot be committed any
                   // more
    absl::Status status;
  };
  // Once at most: promise or blocks go back, no copy is in flight.
  struct ReleaseBlocks {
    // Set where the attempt broke and the request goes on: the pages before it may serve the next
    // attempt at it.
    std::optional<int> resume_tokens;
  };
  using Action =
      std::variant<TakeBlocks, Send, EndStream, Copy, Drop, CommitSequence, Failed, ReleaseBlocks>;

  enum class State { kPromised, kOpen, kReceiving, kCommitted, kDraining, kGone };

  KvReceiver(Config config, absl::Time now);

  std::vector<Action> Handle(const Event& event, absl::Time now);
  // When to send Tick at the latest.
  absl::Time NextDeadline() const { return deadline_; }
  State state() const { return state_; }
  // The tokens whose pages may serve the next attempt of this request: what was held at the start,
  // or what the last agreed checkpoint said.
  int checkpointed_tokens() const { return checkpointed_tokens_; }

 private:
  friend struct MachineState;  // of a test that compares states
  enum class Page : uint8_t { kEmpty, kCopying, kCovered };
  struct Message {
    StreamId stream = 0;
    uint64_t message_id = 0;
    size_t payload_bytes = 0;
    internal::v1::KvDataHeader header;
    size_t window_bytes = 0;  // of held_bytes_
  };
  struct CopyInFlight {
    Message message;
    std::vector<Run> runs;
  };

  void On(const ControlReceived& event);
  void On(const DataReceived& event);
  void On(const Malformed& event);
  void On(const StreamLost& event);
  void On(const Granted& event);
  void On(const CopyDone& event);
  void On(const Cancelled& event);
  void On(const Tick&);

  void OnOpen(StreamId stream, const internal::v1::PushOpen& open);
  void OnJoin(StreamId stream, const internal::v1::PushJoin& join);
  // Whether the push may be heard on a stream at all; if not, it was turned away.
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
  State state_ = State::kPromised;
  absl::Time now_;
  absl::Time deadline_;
  std::vector<Action> actions_;

  StreamId stream_ = 0;        // the push's own, from `open` on
  std::set<StreamId> joined_;  // at most kMaxKvStreams with it
  absl::Time push_deadline_;   // from `open` on
  KvWireFormat wire_;          // of this push, from `open` on
  bool exact_ = false;
  int start_token_ = 0;
  int checkpointed_tokens_ = 0;
  bool resumable_ = true;    // not when the request is over with this attempt
  std::vector<Page> pages_;  // [layers][pages]
  PageCrcTable crcs_;        // of covered pages
  KvDigester digester_;
  uint64_t held_bytes_ = 0;  // payload of messages in copy or waiting
  uint64_t next_copy_id_ = 1;
  std::map<uint64_t, CopyInFlight> copies_;
  std::vector<Message> waiting_;      // for a copy into the same page; bounded by held_bytes_
  std::map<uint64_t, int> refusals_;  // by sequence number; bounded, see AskAgain
};

}  // namespace baton
