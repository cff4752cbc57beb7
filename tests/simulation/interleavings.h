// Every order of events of one prefill and one decode worker that hand over two requests of three
// messages each, where either worker has the blocks of one request only.
//
// K and V are not bytes here but names: a block holds the request that wrote it last. So a page
// that comes from or goes to a block in its next life is seen, and states compare.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "decode_worker/receive_machine.h"
#include "prefill_worker/send_machine.h"

namespace baton {

struct InterleavingOptions {
  int messages = 3;  // data messages of each request
  // Cancels, kills, and timeouts that come while something else could happen; of both requests
  // together. When nothing else can happen, time passes free of charge.
  int disturbances = 1;
};

struct InterleavingResult {
  uint64_t states = 0;
  uint64_t transitions = 0;
  uint64_t ends = 0;       // states in which all is over
  uint64_t committed = 0;  // orders in which the request was committed
  std::string violation;   // the first, with the events that lead to it; empty: none
};

InterleavingResult EnumerateInterleavings(const InterleavingOptions& options);

// One state of the two workers and what is between them. A value: copies go their own ways.
class InterleavingWorld {
 public:
  static constexpr int kRequests = 2;
  enum class Kind {
    kStartDecode,  // the reservation
    kStartPrefill,
    kGrant,
    kCompute,
    kFirstToken,
    kDeliver,  // to the receiver
    kAnswer,   // to the sender
    kReleaseSlices,
    kCopyDone,
    kNoticeAtPrefill,  // that the stream is over
    kNoticeAtDecode,
    kDecodeEnds,  // the end of what was committed
    // Disturbances.
    kCancelAtPrefill,
    kCancelAtDecode,
    kCut,
    kKillPrefill,
    kKillDecode,
    kPrefillTimeout,
    kDecodeTimeout,
  };
  struct Choice {
    Kind kind = Kind::kStartDecode;
    int request = 0;
    uint64_t copy_id = 0;
  };
  static bool Disturbs(Kind kind) { return kind >= Kind::kCancelAtPrefill; }
  static std::string Name(const Choice& choice);

  explicit InterleavingWorld(const InterleavingOptions& options);

  // What can happen next; without disturbances when none is left, but that time passes when nothing
  // else is possible.
  std::vector<Choice> Choices() const;
  void Take(const Choice& choice);
  // Everything that the future depends on.
  std::string State() const;
  // Only asked when there is no choice: all must be over and given back.
  void CheckEnd();
  const std::string& violation() const { return violation_; }
  int committed() const;

 private:
  struct Message {
    bool is_data = false;
    internal::v1::PushRequest control;
    internal::v1::KvDataHeader header;
    size_t payload_bytes = 0;
    bool half_close = false;
  };
  struct Held {  // by the receiver: its pages are of that request's blocks
    internal::v1::KvDataHeader header;
    int content = 0;
  };
  struct Side {
    std::shared_ptr<const SendMachine> sender;
    std::shared_ptr<const ReceiveMachine> receiver;
    bool decode_started = false;
    bool prefill_started = false;
    bool computed = false;
    bool first_token_made = false;
    bool asked_for_blocks = false;
    bool granted = false;
    bool sender_over = false;    // gone, or its worker was killed
    bool receiver_over = false;  // its blocks are back, or its worker was killed
    bool committed = false;
    bool failed = false;
    bool prefill_open = false;  // the ends of the stream
    bool decode_open = false;
    bool prefill_notice = false;  // on its way
    bool decode_notice = false;
    bool half_closed = false;
    std::deque<Message> to_decode;
    std::deque<internal::v1::PushResponse> to_prefill;
    int live_slices = 0;      // messages that point into the blocks
    int released_slices = 0;  // slices that the network gave back unheard by the sender
    uint64_t next_message_id = 1;
    std::map<uint64_t, Held> held;
    std::map<uint64_t, ReceiveAction::Copy> copies;
    std::set<int> in_copy, right;  // pages
  };

  void ChoicesOf(int request, std::vector<Choice>& choices) const;
  void DisturbancesOf(int request, std::vector<Choice>& choices) const;
  void ToSender(int request, const SendEvent::Any& event, absl::Time now = absl::UnixEpoch());
  void ToReceiver(int request, const ReceiveEvent::Any& event, absl::Time now = absl::UnixEpoch());
  void Execute(int request, const SendAction::Any& action);
  void Execute(int request, const ReceiveAction::Any& action);
  void StartDecode(int request);
  void StartPrefill(int request);
  void Compute(int request);
  void Deliver(int request);
  void Answer(int request);
  void BeginCopy(int request, const ReceiveAction::Copy& copy);
  void FinishCopy(int request, uint64_t copy_id);
  void EndStream(int request);
  void KillPrefill();
  void KillDecode();
  void Violation(const std::string& what) {
    if (violation_.empty()) violation_ = what;
  }
  Side& At(int request) { return sides_[static_cast<size_t>(request)]; }
  const Side& At(int request) const { return sides_[static_cast<size_t>(request)]; }

  InterleavingOptions options_;
  std::array<Side, kRequests> sides_;
  int disturbances_left_ = 0;
  int prefill_owner_ = -1;           // request that has the prefill worker's blocks
  int prefill_content_ = -1;         // request whose K and V are in them
  int decode_owner_ = -1;            // owner of the reservation or the blocks
  std::vector<int> decode_content_;  // [page]
  std::string violation_;
};

}  // namespace baton
