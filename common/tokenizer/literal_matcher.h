// A matcher that finds the literals of special and user-defined tokens in text.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace baton {

// Bytes [begin, end) of a text.
struct TextRange {
  size_t begin;
  size_t end;
};

// An automaton (Aho and Corasick's) of the literals read backwards. It goes through a text from the
// right to the left, so that at each byte it knows the longest literal that begins there, in time
// linear in the text whatever the literals are. Immutable and thread-safe. It takes 17 bytes for
// each byte of the literals, less where literals end alike.
class LiteralMatcher {
 public:
  static constexpr size_t kMaxLiteralBytes = 1024;
  // Bytes of all literals. Gemma 3's 6,400 take 77 KB, the most of the models that Baton runs.
  static constexpr size_t kMaxTotalBytes = size_t{8} << 20;

  // A literal of token `id`, which is found in trusted text only if `trusted_only` is set.
  struct Literal {
    absl::string_view text;
    int32_t id;
    bool trusted_only;
  };
  struct Match {
    int32_t id;
    size_t begin;
    size_t size;  // bytes of the literal
  };
  class Search;

  // Finds nothing.
  LiteralMatcher() = default;
  // If two literals are equal, trusted text uses the first of them, and other text the first
  // without `trusted_only`. REQUIRES: each literal has 1 to kMaxLiteralBytes bytes, all together at
  // most kMaxTotalBytes. The texts are read only here.
  explicit LiteralMatcher(std::vector<Literal> literals);

 private:
  static constexpr int32_t kNone = -1;
  static constexpr uint32_t kRoot = 0;
  // Equal literals.
  struct Entry {
    int32_t trusted_id = kNone;  // in trusted text, if not kNone
    int32_t id = kNone;          // in any text, if not kNone
    size_t size = 0;
  };
  // The sorted literals [first, last): those that begin, read backwards, with the bytes of `state`.
  struct Group {
    uint32_t state;
    size_t first;
    size_t last;
  };

  // Adds the states that follow those of `groups`, all of which have `depth` bytes. Returns the
  // groups of the added states.
  std::vector<Group> AddStates(const std::vector<Literal>& literals,
                               const std::vector<Group>& groups, size_t depth);
  // Takes the literals of `depth` bytes out of the group and adds the entry for them. Returns the
  // index of the entry, or 0 if there are no such literals.
  uint32_t AddEntry(const std::vector<Literal>& literals, Group& group, size_t depth);
  // Returns the child of `state` with `byte`, or kRoot if there is none.
  uint32_t Child(uint32_t state, uint8_t byte) const;
  // Returns the state after `byte`: the longest state that ends what was read.
  uint32_t Next(uint32_t state, uint8_t byte) const;

  // The states are numbered by their depth, then by their parent, then by their byte, so that the
  // children of state i are those from first_child_[i] to first_child_[i + 1].
  std::vector<uint8_t> bytes_;         // [states] the byte that leads to the state
  std::vector<uint32_t> first_child_;  // [states + 1]
  std::vector<uint32_t> shorter_;      // [states] the state of its longest proper suffix
  std::vector<uint32_t> longest_;  // [states] the longest entry that the state ends with; 0: none
  std::vector<uint32_t> longest_plain_;                 // [states] the same of entries for any text
  std::array<uint32_t, 256> after_root_ = {};           // the children of the root by their byte
  std::vector<Entry> entries_ = std::vector<Entry>(1);  // entries_[0] is none
};

// Goes through one text. Borrows the matcher, the text and the ranges. Not thread-safe.
class LiteralMatcher::Search {
 public:
  // `trusted`: ascending and apart from one another.
  Search(const LiteralMatcher& matcher, absl::string_view text,
         absl::Span<const TextRange> trusted);

  // Returns the first match that begins at `position` or after it, of several the longest. A match
  // of a literal for trusted text lies wholly in one of the ranges. REQUIRES: `position` is at least
  // that of the call before.
  std::optional<Match> Next(size_t position);

 private:
  // Finds the matches that begin in the block at `begin`.
  void FindBlock(size_t begin);
  // Adds the longest match that begins at `position`. `state` is the state of the whole text there,
  // `in_trusted` that of the trusted range alone, or kRoot outside of such a range.
  void AddMatch(size_t position, uint32_t state, uint32_t in_trusted);

  const LiteralMatcher& matcher_;
  const absl::string_view text_;
  const absl::Span<const TextRange> trusted_;
  size_t block_end_ = 0;
  std::vector<Match> matches_;  // matches in the block, the last one first
};

}  // namespace baton
