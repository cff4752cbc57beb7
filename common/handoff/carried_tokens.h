// Which tokens of each layer a hand-off carries, and how the KV shape tells it.
//
// Of a layer without a window it carries all tokens that the receiver does not hold, of one with a
// window only those that a later token, or the audit of the last block, can see
// (KvLayerGroups::FirstHandedOff). Both ends compute this from the windows, which have to be equal,
// and the number of tokens: nothing is negotiated.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "absl/types/span.h"

#include "baton/internal/v1/common.pb.h"
#include "common/kv/layout.h"

namespace baton {

// The first token that the hand-off of `tokens` tokens carries in `layer`, if the receiver holds
// nothing: at a page's begin.
inline int FirstHandedOff(const KvLayout& layout, int layer, int tokens) {
  return layout.groups.FirstHandedOff(layout.groups.GroupOf(layer), tokens);
}

// The tokens of one hand-off. Every layer has some. Not thread-safe.
class CarriedTokens {
 public:
  // REQUIRES: tokens > 0.
  CarriedTokens(const KvLayout& layout, int tokens);

  // The receiver holds what it needs of the tokens before `start_token`. REQUIRES: a page's begin,
  // below the number of tokens.
  void SetStart(int start_token) { start_token_ = start_token; }
  int start_token() const { return start_token_; }

  // The layer carries the tokens from here on, to the sequence's end: at a page's begin.
  int First(int layer) const {
    return std::max(start_token_, layer_begins_[static_cast<size_t>(layer)]);
  }
  // [layers]: First of each layer if the receiver held nothing.
  absl::Span<const int> layer_begins() const { return layer_begins_; }
  // The sums over all layers: the tokens that they carry, and those that they would carry too if
  // the receiver held nothing.
  size_t carried() const;
  size_t held() const;

 private:
  const int tokens_;
  const std::vector<int> layer_begins_;
  int start_token_ = 0;
};

// Sets the layer_states of the shape of a cache with this layout: none where no layer has a window.
void SetLayerStates(const KvLayout& layout, internal::v1::KvShape& shape);

}  // namespace baton
