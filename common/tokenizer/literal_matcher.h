// Finds the literals of special and user-defined tokens in text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace baton {

// A trie of literals. Thread-safe once built.
class LiteralMatcher {
 public:
  static constexpr size_t kMaxLiteralBytes = 1024;  // bounds the work at each place of a text

  struct Match {
    int32_t id;
    size_t size;  // bytes of the literal
  };

  LiteralMatcher();
  // `trusted_only`: the literal counts in trusted text only. Of two equal literals the first
  // counts, but one that counts everywhere is still found where the other may not be. REQUIRES: 1
  // to kMaxLiteralBytes bytes.
  void Add(absl::string_view literal, int32_t id, bool trusted_only);

  // The longest literal that `text` begins with, where the first `trusted_size` bytes of it are
  // trusted.
  std::optional<Match> Longest(absl::string_view text, size_t trusted_size) const;

 private:
  static constexpr int32_t kNone = -1;
  struct Node {
    int32_t trusted_id = kNone;
    int32_t id = kNone;
  };
  std::vector<Node> nodes_;                           // [0]: the root
  absl::flat_hash_map<uint64_t, uint32_t> children_;  // node << 8 | byte
  std::array<bool, 256> begins_ = {};                 // some literal begins with this byte
};

}  // namespace baton
