// What the K and V rows of a token must be: a function of all tokens up to it, the layer and the
// part, so that a stale, misplaced or foreign row is never equal to the right one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

#include "common/handoff/kv_blocks.h"
#include "tests/simulation/sim_random.h"
#include "tests/simulation/sim_tokens.h"

namespace baton {

inline constexpr int kSimWorkers = 3;  // workers of each kind
inline constexpr int kSimLayers = 3;
// One layer has a window: the keys that a query sees there. It ends within pages and blocks, and is
// much shorter than most prompts.
inline constexpr int kSimWindowLayer = 1;
inline constexpr int kSimWindow = 37;

// Prefill workers that forged KV: bit i is worker i's.
using Forgers = uint32_t;

// One K or V row is one 64-bit word.
inline KvLayout SimLayout(int block_size) {
  return {.layers = kSimLayers,
          .kv_heads = 1,
          .head_dim = 4,
          .block_size = block_size,
          .groups = KvLayerGroups({0, kSimWindow, 0})};
}

// What the model reads, told without KvLayerGroups, which is under test: the first token that a
// query at `position` sees, and the first that the hand-off of `tokens` tokens has to carry.
inline int SimFirstSeen(int layer, int position) {
  return layer == kSimWindowLayer ? std::max(0, position + 1 - kSimWindow) : 0;
}
inline int SimFirstHandedOff(int layer, int tokens) {
  const int first = SimFirstSeen(layer, std::max(0, tokens - kAuditRows));
  return first - first % kKvPageTokens;
}

class KvContent {
 public:
  // `seed` and `choice` tell outputs of one prompt apart, as an engine's generator does, not their
  // KV.
  explicit KvContent(const std::vector<int32_t>& token_ids, uint64_t seed = 0, uint32_t choice = 0)
      : draws_(Mix64(Mix64(seed ^ 0x5EED) + choice)) {
    for (const int32_t id : token_ids) Append(id);
  }
  void Append(int32_t id) {
    const uint64_t prefix = prefixes_.empty() ? 0 : prefixes_.back();
    prefixes_.push_back(Mix64(prefix ^ (static_cast<uint64_t>(id) + 1)));
  }

  int tokens() const { return static_cast<int>(prefixes_.size()); }

  uint64_t Row(int layer, KvLayout::Part part, int token) const {
    return Mix64(prefixes_[static_cast<size_t>(token)] + static_cast<uint64_t>(layer) * 2 + part);
  }
  // What follows the first `tokens` tokens, of what `grammar` allows there: the one answer of the
  // model.
  int32_t NextToken(int tokens, const SimGrammar& grammar) const {
    uint64_t draw = prefixes_[static_cast<size_t>(tokens) - 1] ^ draws_;
    int32_t id = 0;
    do {
      draw = Mix64(draw);
      id = static_cast<int32_t>(draw % kSimVocab);
    } while (!grammar.Allows(id));
    return id;
  }

  void Write(const KvBlocks& blocks, int layer, int first_token, int end_token) const {
    for (int token = first_token; token < end_token; ++token) {
      for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
        const uint64_t row = Row(layer, part, token);
        std::memcpy(blocks.Row(layer, part, token), &row, sizeof(row));
      }
    }
  }
  // As Write, but wrong, and told from what any other worker forges.
  void Forge(const KvBlocks& blocks, int layer, int first_token, int end_token, int worker) const {
    for (int token = first_token; token < end_token; ++token) {
      for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
        const uint64_t row = Row(layer, part, token) ^ Forgery(worker);
        std::memcpy(blocks.Row(layer, part, token), &row, sizeof(row));
      }
    }
  }
  // What guesses leave that did not come true: like no row of any sequence, and no forged one.
  static void WriteRefused(const KvBlocks& blocks, int layer, int first_token, int end_token) {
    for (int token = first_token; token < end_token; ++token) {
      for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
        const uint64_t row = Mix64(~static_cast<uint64_t>(token));
        std::memcpy(blocks.Row(layer, part, token), &row, sizeof(row));
      }
    }
  }
  // Who forged rows of these tokens; none if a row is neither the right one nor forged, or has
  // no block.
  std::optional<Forgers> ForgersOf(const KvBlocks& blocks, int layer, int first_token,
                                   int end_token) const {
    Forgers forgers = 0;
    for (int token = first_token; token < end_token; ++token) {
      if (blocks.block_table[blocks.layout.TableIndex(layer, token)] == kNoBlock) {
        return std::nullopt;
      }
      for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
        uint64_t row = 0;
        std::memcpy(&row, blocks.Row(layer, part, token), sizeof(row));
        row ^= Row(layer, part, token);
        if (row == 0) continue;
        int worker = 0;
        while (worker < kSimWorkers && row != Forgery(worker)) ++worker;
        if (worker == kSimWorkers) return std::nullopt;
        forgers |= Forgers{1} << worker;
      }
    }
    return forgers;
  }

 private:
  static uint64_t Forgery(int worker) { return Mix64(static_cast<uint64_t>(worker)); }

  const uint64_t draws_;
  std::vector<uint64_t> prefixes_;  // [token]: hash of all tokens up to it
};

}  // namespace baton
