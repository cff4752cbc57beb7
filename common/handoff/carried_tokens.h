// Computes which tokens of each layer a hand-off carries.
//
// A layer without a window carries all tokens that the receiver does not hold. A layer with a
// window carries only the tokens that a later token, or the audit of the last block, can see
// (KvLayerGroups::FirstHandedOff). Both ends compute this from the windows, which have to be equal,
// and from the number of tokens: nothing is negotiated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/types/span.h"

#include "baton/internal/v1/common.pb.h"
#include "common/kv/layout.h"

namespace baton {

// Returns the first token that the hand-off of `tokens` tokens carries in `layer` if the receiver
// holds nothing. It begins a page.
inline int FirstHandedOff(const KvLayout& layout, int layer, int tokens) {
  return layout.groups.FirstHandedOff(layout.groups.GroupOf(layer), tokens);
}

// The tokens of one hand-off. Every layer carries at least one. Not thread-safe.
class CarriedTokens {
 public:
  // REQUIRES: tokens > 0.
  CarriedTokens(const KvLayout& layout, int tokens);

  // Leaves out the tokens before `start_token`, whose KV the receiver holds. REQUIRES: the token
  // begins a page and is below the number of tokens.
  void SetStart(int start_token) { start_token_ = start_token; }
  int start_token() const { return start_token_; }

  // Returns the first token that the layer carries. It begins a page; all later tokens follow.
  int First(int layer) const {
    return std::max(start_token_, layer_begins_[static_cast<size_t>(layer)]);
  }
  // [layers]: the first token of each layer if the receiver held nothing.
  absl::Span<const int> layer_begins() const { return layer_begins_; }
  // Sums over all layers: the tokens that are carried, and the tokens that are left out because the
  // receiver holds them.
  size_t carried() const;
  size_t held() const;

 private:
  const int tokens_;
  const std::vector<int> layer_begins_;
  int start_token_ = 0;
};

// Sets the layer_states in the shape of a cache with this layout; leaves them empty if no layer has
// a window.
void SetLayerStates(const KvLayout& layout, internal::v1::KvShape& shape);

}  // namespace baton
