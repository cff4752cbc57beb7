// What a push sends of a cache in a device's memory, on its way to where slices can point.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "absl/functional/function_ref.h"

#include "common/kv/staging.h"
#include "common/rpc/kv_blocks.h"
#include "common/rpc/kv_wire_type.h"
#include "prefill_worker/kv_sender.h"

namespace baton {

// Stands between the engine's events and the machine: a computed layer waits here, as a few
// numbers, until there is room to stage it; is then copied in pieces beside the computation of the
// next; has its CRCs made, or compared with those made before; and only then is ready for the
// machine. The machine hears everything in the order in which it was computed. A piece stays where
// it is until it was sent and acknowledged and its last slice is gone, so that a message can be
// repeated.
//
// How much is staged follows the machine's flight limit: what a slow peer has no use for stays in
// the blocks, and the room is others'.
//
// Thread rule: one thread, the push's. Borrows the staging.
class LayerStager {
 public:
  // What was waited for; back to On.
  struct Copied {
    int layer = 0;
    int first_token = 0;
  };
  using Event = std::variant<KvStaging::Slot, Copied>;
  struct Options {
    KvStaging* staging = nullptr;
    KvWireFormat wire;
    // Called on any thread; must not wait. Dropped events are of a push that has ended.
    std::function<void(Event)> post;
    // As of PushInbox.
    std::function<uint32_t(int32_t block)> block_generation;
  };

  explicit LayerStager(Options options);

  // A layer whose operations the backend was asked for before the mark `after`, and the end of a
  // chunk, in the order in which they came. The CRCs of `layer` are not there yet.
  void Add(const KvSender::LayerReady& layer, uint64_t after);
  void Add(const KvSender::ChunkReady& chunk);
  void On(Event event);

  // The blocks of the sequence, and their generations when they were computed.
  struct Blocks {
    const KvBlocks& blocks;
    const std::vector<uint32_t>& generations;  // [blocks.block_table]
  };
  // Stages what there is room for; what the machine is to be told now, in order.
  std::vector<KvSender::Event> Advance(const KvSender& sender, const Blocks& blocks);

  // The rows of the layers of a message that is sent now, and until its slices are gone (Released).
  // REQUIRES: the machine was told of them.
  std::vector<KvLayerRows> Send(const internal::v1::KvDataHeader& header);
  void Released(uint64_t sequence_number);

  // No copy reads the blocks.
  bool idle() const { return copying_ == 0; }
  size_t held_bytes() const { return pieces_.size() * staging_.slot_bytes(); }

 private:
  struct Computed {
    int layer = 0;
    int first_token = 0;
    int end_token = 0;
    uint64_t after = 0;
  };
  struct Piece {
    KvStaging::Slot slot;
    KvBlocks staged;                                   // one block, of the slot
    std::vector<std::pair<int32_t, uint32_t>> blocks;  // that it is from, and their generations
    int layer = 0;
    int first_token = 0;
    int end_token = 0;
    bool copied = false;
    int unsent_tokens = 0;
    int messages = 0;  // that may still be read, or sent once more

    KvLayerRows rows() const { return {&staged, layer, 0, first_token}; }
  };
  using Place = std::pair<int, int>;  // layer, first token
  struct Message {
    std::vector<Place> pieces;
    int alive = 0;  // buffers whose slices are not all destroyed
  };

  void StageComputed(const KvSender& sender, const Blocks& blocks);
  void TellMachine(const Blocks& blocks, std::vector<KvSender::Event>& events);
  bool StageNext(const Blocks& blocks, uint64_t most_bytes);
  void Copy(const Computed& computed, KvStaging::Slot slot, const Blocks& blocks);
  absl::StatusOr<KvSender::Event> Ready(Piece& piece, const KvLayout& cache_layout);
  void Forget(absl::FunctionRef<bool(uint64_t)> may_send_again);
  void Stop();
  Piece& PieceOf(int layer, int token);

  const Options options_;
  KvStaging& staging_;
  KvStaging::User user_;
  KvStaging::Slot granted_;
  bool waiting_for_slot_ = false;

  // What was computed and is not staged: at most layers x chunks.
  std::deque<std::variant<Computed, KvSender::ChunkReady>> computed_;
  std::deque<std::variant<Place, KvSender::ChunkReady>> staging_order_;  // not told yet
  std::map<Place, Piece> pieces_;
  std::map<uint64_t, Message> messages_;  // by sequence number
  int copying_ = 0;
  bool told_since_flush_ = false;
  bool stopped_ = false;
};

}  // namespace baton
