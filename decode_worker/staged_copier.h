// Copies payloads into blocks in a device's memory: by way of staging, without waiting for the
// device.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <variant>
#include <vector>

#include "common/kv/staging.h"
#include "common/rpc/kv_blocks.h"
#include "common/rpc/kv_wire.h"
#include "decode_worker/kv_receiver.h"

namespace baton {

// A copy goes run by run, in pieces of a slot, in the order of Add: its rows are written to a slot,
// where their CRCs are taken, and from there into the blocks. It is done, with the CRCs of all,
// when the device has the last of them. Where there is no room copies wait, as few numbers and the
// message that the network delivered.
//
// Thread rule: one thread, the receiver's. Borrows the staging.
class StagedCopier {
 public:
  // What was waited for; back to On.
  struct Copied {
    uint64_t piece = 0;
  };
  using Event = std::variant<KvStaging::Slot, Copied>;

  // `post` is called on any thread; it must not wait.
  StagedCopier(KvStaging& staging, std::function<void(Event)> post);

  // Borrows the message until the copy is done.
  void Add(const KvReceiver::Copy& copy, const KvDataMessage& message);
  void On(Event event);
  // Begins what there is room for; what is done now. `abandon`: nobody needs the bytes any more, so
  // that only those on their way are waited for.
  std::vector<KvReceiver::CopyDone> Advance(const KvBlocks& blocks, bool abandon);

 private:
  struct Copy {
    KvReceiver::Copy copy;
    const KvDataMessage* message;
    KvReceiver::CopyDone done;
    size_t next_run = 0;
    int next_token = 0;                 // of that run, from its first on
    std::vector<uint64_t> pieces = {};  // on their way
    bool filled() const { return next_run == copy.runs.size(); }
  };
  bool HaveSlot();
  void CopyNext(Copy& copy, const KvBlocks& blocks);

  KvStaging& staging_;
  const std::function<void(Event)> post_;
  KvStaging::User user_;
  KvStaging::Slot granted_;
  bool waiting_for_slot_ = false;
  uint64_t last_piece_ = 0;
  std::map<uint64_t, KvStaging::Slot> pieces_;  // on their way
  std::deque<Copy> copies_;                     // bounded by the receiver's window
};

}  // namespace baton
