// Copies payloads through pinned slots into blocks in a device's memory, without waiting for the
// device.
#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <variant>
#include <vector>

#include "common/handoff/kv_blocks.h"
#include "common/handoff/kv_wire.h"
#include "common/kv/staging.h"
#include "decode_worker/receive_events.h"

namespace baton {

// Copies are made in the order of Add, range by range, in pieces of a slot. The rows of a piece are
// written to a slot, where their CRCs are made, and from there copied into the blocks. A copy is
// done when the device has its last piece. Copies that have no slot yet wait as a few numbers and
// the message that the network delivered.
//
// Filling a slot is a job of the staging's helpers; what they do not take, the push's thread does.
// The CRCs of a copy are in the order of its pages either way.
//
// Thread rule: one thread, the push's. Borrows the staging. May be destroyed when all copies are
// done.
class StagedCopier {
 public:
  // The device has a piece, or its bytes could not be read. It is posted, and comes back by On.
  struct Copied {
    uint64_t piece = 0;
  };
  using Event = std::variant<KvStaging::Slot, Copied>;

  // `post` brings an event to On. It is called on any thread and must not wait.
  StagedCopier(KvStaging& staging, std::function<void(Event)> post);

  // Borrows the message until the copy is done.
  void Add(const ReceiveAction::Copy& copy, const KvDataMessage& message);
  void On(Event event);
  // Begins the pieces that there is room for, and returns the copies that are done now. `abandon`:
  // the bytes are not needed any more, so it begins no further piece and only waits for the pieces
  // that are under way.
  std::vector<ReceiveEvent::CopyDone> Advance(const KvBlocks& blocks, bool abandon);

 private:
  // Some tokens of a range.
  struct Piece {
    KvStaging::Slot slot;         // empty once the piece is posted
    KvBlocks staged;              // the slot as a cache of one block
    ReceiveEvent::CopyDone done;  // what of the copy's is the piece's
  };
  struct Copy {
    ReceiveAction::Copy copy;
    const KvDataMessage* message;
    bool ok = true;
    size_t next_range = 0;
    int next_token = 0;                  // next token of that range, counted from its first one
    std::map<uint64_t, Piece> pieces{};  // by number, which is their order
    int under_way = 0;                   // pieces on their way to the device
    bool filled() const { return next_range == copy.ranges.size(); }
  };
  bool HaveSlot();
  void CopyNext(Copy& copy, const KvBlocks& blocks);
  static ReceiveEvent::CopyDone DoneOf(const Copy& copy);

  KvStaging& staging_;
  const std::function<void(Event)> post_;
  KvStaging::User user_;
  KvStaging::Slot granted_;
  bool waiting_for_slot_ = false;
  uint64_t last_piece_ = 0;
  std::list<Copy> copies_;  // copies that are not done; the receiver's window bounds them
};

}  // namespace baton
