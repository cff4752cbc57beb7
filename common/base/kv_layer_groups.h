// The groups of layers whose K and V share a KV block.
//
// A layer whose attention has a window needs the K and V of the last tokens only, so its blocks can
// be given back while those of a layer without a window stay. That is why layers of different
// windows never share a block. The layers of one window are cut into groups of equal size, as far
// as they go, so that the blocks of all groups have the same bytes and one pool serves them all.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace baton {

// Rows of a hand-off that a window layer carries beyond those that the next token sees: with them
// the receiver can compute the prompt's last block once more (common/engine/block_auditor.h).
inline constexpr int kAuditRows = 64;

// What is still read of a sequence whose tokens before some end are held.
struct KvNeed {
  bool computes = false;  // by the tokens from the end on, which are computed here
  int handed_off = 0;     // tokens of the hand-off; 0: there is none
};

// The kind of a layer is its window: the keys that a query sees, its own included; 0: all up to its
// own. Where all layers have a window, those of the largest count as layers without one: a prefix is
// found by the blocks that keep all of it. Groups of the same kind follow each other, those without
// a window first.
//
// Immutable. A default-constructed one has one group of all layers, and no windows.
class KvLayerGroups {
 public:
  KvLayerGroups() = default;
  // `windows` [layers]: the window of each layer. The groups have the largest size for which no
  // kind's blocks are emptier than a sixth. REQUIRES: at least one layer, no negative window.
  explicit KvLayerGroups(absl::Span<const int> windows);

  int count() const { return windows_.empty() ? 1 : static_cast<int>(windows_.size()); }
  // The group of a layer, and the layer's place in the blocks of that group.
  int GroupOf(int layer) const { return places_.empty() ? 0 : At(layer).group; }
  int SlotOf(int layer) const { return places_.empty() ? layer : At(layer).slot; }
  // Layers of a block of any group; a kind's last group may have fewer. `layers`: all layers.
  int SlotsOf(int layers) const { return places_.empty() ? layers : slots_; }
  int window(int group) const {
    return windows_.empty() ? 0 : windows_[static_cast<size_t>(group)];
  }
  bool any_window() const { return window(count() - 1) != 0; }

  // The first token that a query at `position`, or at a later one, sees in the layers of `group`.
  int FirstSeen(int group, int position) const;
  // The first token that the hand-off of a sequence of `tokens` tokens carries in the layers of
  // `group`, if the receiver holds nothing: at a page's begin.
  int FirstHandedOff(int group, int tokens) const;
  // The first token before `end` that is still read in the layers of `group`; at least `end` if
  // none is.
  int FirstNeeded(int group, const KvNeed& need, int end) const;

  // The most blocks of `block_size` tokens that a sequence of `tokens` tokens has at once, while at
  // most `chunk_tokens` of them are computed together, and while it is handed off: all tokens in
  // the layers without a window, and in the others what is still read. Ascends with `tokens`.
  int64_t BlocksOf(int64_t tokens, int block_size, int chunk_tokens = 1) const;
  // Returns the most tokens of a sequence that fit into `blocks` blocks, in whole blocks.
  int64_t TokensIn(int64_t blocks, int block_size, int chunk_tokens = 1) const;

  friend bool operator==(const KvLayerGroups&, const KvLayerGroups&) = default;

 private:
  struct Place {
    int group = 0;
    int slot = 0;
    friend bool operator==(const Place&, const Place&) = default;
  };
  const Place& At(int layer) const { return places_[static_cast<size_t>(layer)]; }

  // Both are empty if there is one group.
  std::vector<Place> places_;  // [layers]
  std::vector<int> windows_;   // [groups]
  int slots_ = 0;
};

}  // namespace baton
