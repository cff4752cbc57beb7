// Copies the KV of a push from a device's memory to pinned slots, to which gRPC's slices can point.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "common/handoff/kv_blocks.h"
#include "common/handoff/kv_wire_type.h"
#include "common/kv/staging.h"
#include "prefill_worker/send_machine.h"

namespace baton {

// Stands between the engine's events and the push's machine (SendMachine). A computed layer first
// waits here, as a few numbers, until there is room to stage it. Then it is copied to slots, piece
// by piece, while the next layer is computed. Then its CRCs are made, or compared with the earlier
// ones, and it is converted if the wire type is not the cache's. Only then is the machine notified,
// in the order in which the layers were computed. A piece keeps its slot until it was sent and
// acknowledged and its last slice is destroyed, so that a message can be repeated.
//
// The staging's helpers make CRCs and conversions as soon as a copy has ended; the push's thread
// does the jobs that they do not take. The bytes and the machine's events are the same either way.
//
// A piece is converted once. Its bytes on the wire replace the cache's bytes in the slot, or lie
// beside the slot if they are more. Messages and their repeats are slices of them. So no block is
// read after its copy has ended, which is when the generations are compared.
//
// The machine's flight limit bounds how much is staged: layers that a slow peer cannot take yet
// stay in the blocks, and other pushes use the slots.
//
// Thread rule: one thread, the push's. Borrows the staging. May be destroyed when it is idle.
class LayerStager {
 public:
  // Posted when a copy and the helpers' work on it are done; On receives it.
  struct Copied {
    int layer = 0;
    int first_token = 0;  // names the piece together with the layer
  };
  using Event = std::variant<KvStaging::Slot, Copied>;
  struct Options {
    KvStaging* staging = nullptr;
    KvWireFormat wire;
    // Brings an event to On. Called on any thread; must not wait. It may drop events once the push
    // has ended.
    std::function<void(Event)> post;
    // The generation of a block; see SendInbox::Generation. Called on any thread.
    std::function<uint32_t(int32_t block)> block_generation;
  };

  explicit LayerStager(Options options);

  // Adds a computed layer, as SendEvent::LayerReady says, or the end of a chunk, in the order in
  // which they came. The layer's operations were given to the backend before the mark `after`
  // (DeviceCopies). `layer` has no CRCs yet.
  void Add(const SendEvent::LayerReady& layer, uint64_t after);
  void Add(const SendEvent::ChunkReady& chunk);
  void On(Event event);

  struct Blocks {
    const KvBlocks& blocks;                    // the blocks of the sequence
    const std::vector<uint32_t>& generations;  // [blocks.block_table], when they were computed
  };
  // Stages what there is room for. Returns the events for the machine, in order.
  std::vector<SendEvent::Any> Advance(const SendMachine& sender, const Blocks& blocks);

  // Returns the rows of the layers of a message that is about to be sent, as they go over the wire.
  // They are valid until Released is called for the message. REQUIRES: the machine was notified of
  // these layers.
  std::vector<KvLayerRows> Send(const internal::v1::KvDataHeader& header);
  void Released(uint64_t sequence_number);

  // Whether no copy reads the blocks, and no helper works on what was copied.
  // tests/planted_bugs: stager_always_idle
  bool idle() const { return copying_ == 0; }
  // Bytes on the wire of what is staged, or being staged.
  size_t held_bytes() const { return pieces_.size() * piece_bytes_; }

 private:
  struct Computed {
    LayerTokens kv;
    uint64_t after = 0;  // the mark behind its operations
  };
  // Some tokens of one layer in a slot.
  struct Piece {
    KvStaging::Slot slot;
    std::unique_ptr<uint8_t[]> wider;  // the converted bytes, if the slot has no room for them
    // Its bytes as a cache of one block: first as they are in the cache, and as they go over the
    // wire once the machine is notified.
    KvBlocks staged;
    std::vector<BlockRef> blocks;  // source blocks
    LayerTokens kv;
    // The CRCs of its pages on the wire, or why it cannot be sent; nothing until they are made.
    std::optional<absl::StatusOr<std::vector<uint32_t>>> page_crcs;
    bool copied = false;    // whether the copy into the slot is done, and no helper has the piece
    int unsent_tokens = 0;  // tokens that no message has had yet
    int messages = 0;       // messages with its bytes that may still be read or repeated

    KvLayerRows rows() const { return {&staged, kv.layer, 0, kv.tokens.begin}; }
  };
  using Place = std::pair<int, int>;  // layer, first token
  struct Message {
    std::vector<Place> pieces;
    int alive = 0;  // sendings whose slices are not all destroyed
  };

  void StageComputed(const SendMachine& sender, const Blocks& blocks);
  void TellMachine(std::vector<SendEvent::Any>& events);
  bool StageNext(const Blocks& blocks, uint64_t most_bytes);
  void Copy(const Computed& computed, KvStaging::Slot slot, const Blocks& blocks);
  absl::StatusOr<std::vector<uint32_t>> MakeCrcs(Piece& piece) const;
  void KeepConverted(KvBlocks converted, std::unique_ptr<uint8_t[]> bytes, Piece& piece) const;
  void Forget(absl::FunctionRef<bool(uint64_t)> may_send_again);
  void Stop();
  Piece& PieceOf(int layer, int token);

  const Options options_;
  KvStaging& staging_;
  const size_t piece_bytes_;  // most bytes of a piece on the wire
  KvStaging::User user_;
  KvStaging::Slot granted_;
  bool waiting_for_slot_ = false;

  // Layers that are computed and not staged yet: at most layers x chunks.
  std::deque<std::variant<Computed, SendEvent::ChunkReady>> computed_;
  // Staged pieces and ends of chunks of which the machine was not notified yet.
  std::deque<std::variant<Place, SendEvent::ChunkReady>> staging_order_;
  std::map<Place, Piece> pieces_;
  std::map<uint64_t, Message> messages_;  // messages by sequence number
  int copying_ = 0;                       // copies under way, and with helpers
  bool told_since_flush_ = false;         // whether a LayerReady followed the last Flush
  // The push has ended: nothing more is staged. Helpers read it.
  std::atomic<bool> stopped_ = false;
};

}  // namespace baton
