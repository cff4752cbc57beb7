#include "common/tokenizer/literal_matcher.h"

#include <algorithm>

#include "common/base/check.h"

namespace baton {
namespace {

uint64_t EdgeKey(uint32_t node, char byte) {
  return uint64_t{node} << 8 | static_cast<uint8_t>(byte);
}

}  // namespace

LiteralMatcher::LiteralMatcher() : nodes_(1) {}

void LiteralMatcher::Add(absl::string_view literal, int32_t id, bool trusted_only) {
  BATON_CHECK(!literal.empty() && literal.size() <= kMaxLiteralBytes, "literal out of bounds");
  begins_[static_cast<uint8_t>(literal[0])] = true;
  uint32_t node = 0;
  for (const char byte : literal) {
    const auto [child, is_new] =
        children_.try_emplace(EdgeKey(node, byte), static_cast<uint32_t>(nodes_.size()));
    if (is_new) nodes_.emplace_back();
    node = child->second;
  }
  int32_t& slot = trusted_only ? nodes_[node].trusted_id : nodes_[node].id;
  if (slot == kNone) slot = id;
}

std::optional<LiteralMatcher::Match> LiteralMatcher::Longest(absl::string_view text,
                                                             size_t trusted_size) const {
  if (text.empty() || !begins_[static_cast<uint8_t>(text[0])]) return std::nullopt;
  std::optional<Match> longest;
  uint32_t node = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto child = children_.find(EdgeKey(node, text[i]));
    if (child == children_.end()) break;
    node = child->second;
    const size_t size = i + 1;
    if (nodes_[node].trusted_id != kNone && size <= trusted_size) {
      longest = {nodes_[node].trusted_id, size};
    } else if (nodes_[node].id != kNone) {
      longest = {nodes_[node].id, size};
    }
  }
  return longest;
}

}  // namespace baton
