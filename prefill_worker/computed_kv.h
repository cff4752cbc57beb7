// The computed KV of a push: the CRCs of its pages, and what of it was not sent yet.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/handoff/carried_tokens.h"
#include "common/handoff/kv_digest.h"
#include "common/kv/token_range.h"
#include "prefill_worker/send_events.h"

namespace baton {

// Cuts the computed layers into messages, in the order in which they were computed. A layer with a
// window has no part in the chunks before its first token that the hand-off carries. Not
// thread-safe.
class ComputedKv {
 public:
  // A part of the next message: the tokens of `first` in each of the layers
  // [first.layer, first.layer + layers).
  struct Piece {
    LayerTokens first;
    int layers = 1;
    size_t payload_bytes = 0;
  };

  // `token_bytes`: K and V of one token in one layer, on the wire. Layers of one chunk wait for
  // each other until a message has `min_payload_bytes`.
  ComputedKv(const KvLayout& layout, int tokens, size_t token_bytes, size_t min_payload_bytes);

  // REQUIRES: what SendEvent::LayerReady says.
  void Add(const SendEvent::LayerReady& layer);
  // Makes the added layers ready to be sent, without waiting for more layers.
  void Flush();
  // Leaves out the tokens before `start_token`, whose KV the receiver holds.
  void SetStart(int start_token) { carried_.SetStart(start_token); }
  const CarriedTokens& carried() const { return carried_; }
  // Nothing more is sent.
  void Clear() { unsent_.clear(); }

  // The next piece of at most `limit` bytes. It has as many consecutive layers of one range of
  // tokens as the limit allows. If one layer is too large, it has only the first pages of this
  // layer. Nothing if there is nothing to send, or where it pays to wait for more layers.
  // REQUIRES: a page of a layer is no larger than the limit.
  std::optional<Piece> Next(size_t limit);
  // The piece is sent. REQUIRES: Next has just returned it.
  void Take(const Piece& piece);
  // Writes the piece's layers, tokens, KV heads and CRCs.
  void Describe(const Piece& piece, internal::v1::KvDataHeader& header) const;

  bool all_sent() const { return unsent_.empty(); }
  // Whether every computed token before `end_token` was sent.
  bool SentBefore(int end_token) const;
  const PageCrcTable& crcs() const { return crcs_; }

 private:
  friend struct MachineState;  // a test compares states with it
  struct Layer {
    LayerTokens kv;
    bool waits = true;  // whether it waits for more layers where the message would be small
  };

  TokenRange Unsent(const Layer& layer) const;
  bool MayGrow(const Piece& piece) const;

  const KvLayout layout_;
  const int tokens_;  // tokens of the whole sequence
  const size_t token_bytes_;
  const size_t min_payload_bytes_;
  CarriedTokens carried_;
  std::deque<Layer> unsent_;  // at most layers x chunks
  PageCrcTable crcs_;
};

}  // namespace baton
