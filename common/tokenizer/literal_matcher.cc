#include "common/tokenizer/literal_matcher.h"

#include <algorithm>
#include <utility>

#include "common/base/check.h"

namespace baton {
namespace {

// Bytes whose matches are found at once.
constexpr size_t kBlockBytes = size_t{64} << 10;

uint8_t ByteAt(absl::string_view text, size_t from_end) {
  return static_cast<uint8_t>(text[text.size() - 1 - from_end]);
}

// Orders the literals as they are read backwards.
bool Before(const LiteralMatcher::Literal& a, const LiteralMatcher::Literal& b) {
  return std::lexicographical_compare(
      a.text.rbegin(), a.text.rend(), b.text.rbegin(), b.text.rend(),
      [](char x, char y) { return static_cast<uint8_t>(x) < static_cast<uint8_t>(y); });
}

}  // namespace

LiteralMatcher::LiteralMatcher(std::vector<Literal> literals) {
  size_t total_bytes = 0;
  for (const Literal& literal : literals) {
    BATON_CHECK(!literal.text.empty() && literal.text.size() <= kMaxLiteralBytes,
                "literal out of bounds");
    total_bytes += literal.text.size();
  }
  BATON_CHECK(total_bytes <= kMaxTotalBytes, "literals out of bounds");
  if (literals.empty()) return;
  std::stable_sort(literals.begin(), literals.end(), Before);
  bytes_.reserve(total_bytes + 1);
  for (auto* states : {&first_child_, &shorter_, &longest_, &longest_plain_}) {
    states->reserve(total_bytes + 2);
  }
  bytes_.push_back(0);
  shorter_.push_back(kRoot);
  longest_.push_back(0);
  longest_plain_.push_back(0);
  std::vector<Group> groups = {{.state = kRoot, .first = 0, .last = literals.size()}};
  for (size_t depth = 0; !groups.empty(); ++depth) groups = AddStates(literals, groups, depth);
  first_child_.push_back(static_cast<uint32_t>(bytes_.size()));
  bytes_.shrink_to_fit();
  for (auto* states : {&first_child_, &shorter_, &longest_, &longest_plain_}) {
    states->shrink_to_fit();
  }
}

std::vector<LiteralMatcher::Group> LiteralMatcher::AddStates(const std::vector<Literal>& literals,
                                                             const std::vector<Group>& groups,
                                                             size_t depth) {
  std::vector<Group> next;
  for (const Group& parent : groups) {
    first_child_.push_back(static_cast<uint32_t>(bytes_.size()));
    for (size_t first = parent.first; first < parent.last;) {
      const uint8_t byte = ByteAt(literals[first].text, depth);
      size_t last = first + 1;
      while (last < parent.last && ByteAt(literals[last].text, depth) == byte) ++last;
      Group child{.state = static_cast<uint32_t>(bytes_.size()), .first = first, .last = last};
      bytes_.push_back(byte);
      const uint32_t entry = AddEntry(literals, child, depth + 1);
      if (parent.state == kRoot) after_root_[byte] = child.state;
      // All states of less depth are whole, so this finds the longest proper suffix.
      const uint32_t shorter =
          parent.state == kRoot ? kRoot : this->Next(shorter_[parent.state], byte);
      shorter_.push_back(shorter);
      longest_.push_back(entry != 0 ? entry : longest_[shorter]);
      longest_plain_.push_back(entries_[entry].id != kNone ? entry : longest_plain_[shorter]);
      next.push_back(child);
      first = last;
    }
  }
  return next;
}

uint32_t LiteralMatcher::AddEntry(const std::vector<Literal>& literals, Group& group,
                                  size_t depth) {
  Entry entry{.size = depth};
  // The shortest literals come first, and equal ones in the order in which they were given.
  for (; group.first < group.last && literals[group.first].text.size() == depth; ++group.first) {
    const Literal& literal = literals[group.first];
    int32_t& id = literal.trusted_only ? entry.trusted_id : entry.id;
    if (id == kNone) id = literal.id;
  }
  if (entry.id == kNone && entry.trusted_id == kNone) return 0;
  entries_.push_back(entry);
  return static_cast<uint32_t>(entries_.size() - 1);
}

uint32_t LiteralMatcher::Child(uint32_t state, uint8_t byte) const {
  if (state == kRoot) return after_root_[byte];
  const auto begin = bytes_.begin() + first_child_[state];
  const auto end = bytes_.begin() + first_child_[state + 1];
  const auto found = std::lower_bound(begin, end, byte);
  return found != end && *found == byte ? static_cast<uint32_t>(found - bytes_.begin()) : kRoot;
}

uint32_t LiteralMatcher::Next(uint32_t state, uint8_t byte) const {
  while (true) {
    const uint32_t child = Child(state, byte);
    if (child != kRoot || state == kRoot) return child;
    state = shorter_[state];
  }
}

LiteralMatcher::Search::Search(const LiteralMatcher& matcher, absl::string_view text,
                               absl::Span<const TextRange> trusted)
    : matcher_(matcher), text_(text), trusted_(trusted) {
  if (matcher_.bytes_.empty()) block_end_ = text_.size();  // nothing is ever found
}

std::optional<LiteralMatcher::Match> LiteralMatcher::Search::Next(size_t position) {
  while (true) {
    while (!matches_.empty() && matches_.back().begin < position) matches_.pop_back();
    if (!matches_.empty()) return matches_.back();
    position = std::max(position, block_end_);
    if (position >= text_.size()) return std::nullopt;
    FindBlock(position);
  }
}

void LiteralMatcher::Search::FindBlock(size_t begin) {
  block_end_ = std::min(text_.size(), begin + kBlockBytes);
  // A literal that begins in the block ends before `end`.
  const size_t end = std::min(text_.size(), block_end_ + kMaxLiteralBytes - 1);
  // Ranges that begin before `end` are visited from the last one back.
  size_t ranges = static_cast<size_t>(
      std::partition_point(trusted_.begin(), trusted_.end(),
                           [end](const TextRange& range) { return range.begin < end; }) -
      trusted_.begin());
  uint32_t state = kRoot, in_trusted = kRoot;
  bool inside = false;
  for (size_t i = end; i-- > begin;) {
    while (ranges > 0 && i < trusted_[ranges - 1].begin) {
      --ranges;
      inside = false;
    }
    const auto byte = static_cast<uint8_t>(text_[i]);
    const bool was_same = state == in_trusted;
    state = matcher_.Next(state, byte);
    if (ranges > 0 && i < trusted_[ranges - 1].end) {
      // Nothing to the right of the range counts for what lies wholly in it.
      if (!std::exchange(inside, true)) {
        in_trusted = matcher_.Next(kRoot, byte);
      } else {
        in_trusted = was_same ? state : matcher_.Next(in_trusted, byte);
      }
    } else {
      in_trusted = kRoot;
    }
    if (i < block_end_) AddMatch(i, state, in_trusted);
  }
}

void LiteralMatcher::Search::AddMatch(size_t position, uint32_t state, uint32_t in_trusted) {
  const Entry& trusted = matcher_.entries_[matcher_.longest_[in_trusted]];
  const Entry& plain = matcher_.entries_[matcher_.longest_plain_[state]];
  if (trusted.size == 0 && plain.size == 0) return;
  const bool of_trusted = trusted.size >= plain.size;
  const Entry& longest = of_trusted ? trusted : plain;
  const bool by_trust = of_trusted && trusted.trusted_id != kNone;
  matches_.push_back(
      {.id = by_trust ? longest.trusted_id : longest.id, .begin = position, .size = longest.size});
}

}  // namespace baton
