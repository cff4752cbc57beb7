// A matcher that finds the literals of special and user-defined tokens in text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"

namespace baton {

// A trie of literals. Add is not thread-safe; Longest may be called by any thread after the last
// Add.
class LiteralMatcher {
 public:
  static constexpr size_t kMaxLiteralBytes = 1024;  // bounds the work at each byte of a text

  struct Match {
    int32_t id;
    size_t size;  // bytes of the literal
  };

  LiteralMatcher();
  // Adds a literal of token `id`, which is found in trusted text only if `trusted_only` is set. Of
  // two equal literals the first counts in trusted text, and the first without `trusted_only` in
  // other text. REQUIRES: `literal` has 1 to kMaxLiteralBytes bytes.
  void Add(absl::string_view literal, int32_t id, bool trusted_only);

  // Returns the longest literal that `text` begins with; nullopt if there is none. The first
  // `trusted_size` bytes of `text` are trusted.
  std::optional<Match> Longest(absl::string_view text, size_t trusted_size) const;

 private:
  static constexpr int32_t kNone = -1;
  struct Node {
    int32_t trusted_id = kNone;
    int32_t id = kNone;
  };
  std::vector<Node> nodes_;                           // nodes_[0] is the root
  absl::flat_hash_map<uint64_t, uint32_t> children_;  // node << 8 | byte -> child node
  std::array<bool, 256> begins_ = {};                 // whether a literal begins with this byte
};

}  // namespace baton
