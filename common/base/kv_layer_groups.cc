#include "common/base/kv_layer_groups.h"

#include <algorithm>
#include <functional>
#include <map>

#include "common/base/check.h"
#include "common/base/kv_type.h"

namespace baton {
namespace {

constexpr int kEmptyShare = 6;  // at most a sixth of a kind's blocks is empty

int GroupsFor(int layers, int slots) { return (layers + slots - 1) / slots; }

// Whether groups of `slots` layers leave few enough slots without a layer.
bool Fits(int layers, int slots) {
  const int held = GroupsFor(layers, slots) * slots;
  return (held - layers) * kEmptyShare <= held;
}

}  // namespace

KvLayerGroups::KvLayerGroups(absl::Span<const int> windows) {
  BATON_CHECK(!windows.empty(), "a model has layers");
  // Layers by window; no window counts as the largest.
  const auto keeps_more = [](int a, int b) { return a != b && b != 0 && (a == 0 || a > b); };
  std::map<int, std::vector<int>, std::function<bool(int, int)>> kinds(keeps_more);
  for (size_t layer = 0; layer < windows.size(); ++layer) {
    BATON_CHECK(windows[layer] >= 0, "a window is a count of keys");
    kinds[windows[layer]].push_back(static_cast<int>(layer));
  }
  for (const auto& [window, layers] : kinds) {
    slots_ = std::max(slots_, static_cast<int>(layers.size()));
  }
  const auto fits = [&](const auto& kind) {
    return Fits(static_cast<int>(kind.second.size()), slots_);
  };
  while (!std::all_of(kinds.begin(), kinds.end(), fits)) --slots_;
  if (slots_ == static_cast<int>(windows.size())) return;
  places_.resize(windows.size());
  for (const auto& [window, layers] : kinds) {
    const bool keeps_all = window == kinds.begin()->first;
    for (size_t i = 0; i < layers.size(); ++i) {
      const int slot = static_cast<int>(i) % slots_;
      if (slot == 0) windows_.push_back(keeps_all ? 0 : window);
      places_[static_cast<size_t>(layers[i])] = {count() - 1, slot};
    }
  }
}

int KvLayerGroups::FirstSeen(int group, int position) const {
  return window(group) == 0 ? 0 : std::max(0, position - window(group) + 1);
}

int KvLayerGroups::FirstHandedOff(int group, int tokens) const {
  const int first = FirstSeen(group, std::max(0, tokens - kAuditRows));
  return first - first % kKvPageTokens;
}

int KvLayerGroups::FirstNeeded(int group, const KvNeed& need, int end) const {
  int first = end;
  if (need.computes) first = FirstSeen(group, end);
  if (need.handed_off > 0) first = std::min(first, FirstHandedOff(group, need.handed_off));
  return first;
}

int64_t KvLayerGroups::BlocksOf(int64_t tokens, int block_size, int chunk_tokens) const {
  const int64_t spans = (tokens + block_size - 1) / block_size;
  int64_t blocks = 0;
  for (int group = 0; group < count(); ++group) {
    // They may begin and end in the middle of a block.
    const int64_t read =
        int64_t{window(group)} + std::max(chunk_tokens, kAuditRows + kKvPageTokens);
    const int64_t most = (read + block_size - 1) / block_size + 1;
    blocks += window(group) == 0 ? spans : std::min(spans, most);
  }
  return blocks;
}

int64_t KvLayerGroups::TokensIn(int64_t blocks, int block_size, int chunk_tokens) const {
  int64_t rows = blocks / count(), too_many = blocks + 1;
  while (too_many - rows > 1) {
    const int64_t middle = rows + (too_many - rows) / 2;
    (BlocksOf(middle * block_size, block_size, chunk_tokens) <= blocks ? rows : too_many) = middle;
  }
  return rows * block_size;
}

}  // namespace baton
