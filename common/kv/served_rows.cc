#include "common/kv/served_rows.h"

#include <algorithm>

#include "common/base/check.h"

namespace baton {

ServedRows::ServedRows(const KvLayout& layout, const KvNeed& need, size_t first_row)
    : layout_(layout),
      need_(need),
      first_row_(first_row),
      held_since_(static_cast<size_t>(layout.groups.count()), first_row) {}

void ServedRows::Add(absl::Span<const int32_t> row) {
  BATON_CHECK(row.size() == held_since_.size() && row[0] != kNoBlock, "a row of held blocks");
  blocks_.insert(blocks_.end(), row.begin(), row.end());
  const size_t end = first_row_ + blocks_.size() / row.size();
  for (size_t group = 0; group < row.size(); ++group) {
    if (row[group] == kNoBlock) held_since_[group] = end;
  }
}

bool ServedRows::Serve(int end) const {
  for (int group = 0; group < layout_.groups.count(); ++group) {
    if (FirstRead(group, end) < held_since_[static_cast<size_t>(group)]) return false;
  }
  return true;
}

std::vector<int32_t> ServedRows::Blocks(int end) const {
  const size_t groups = held_since_.size();
  std::vector<int32_t> served(
      blocks_.begin(),
      blocks_.begin() + static_cast<std::ptrdiff_t>(
                            (static_cast<size_t>(layout_.BlocksFor(end)) - first_row_) * groups));
  for (size_t group = 1; group < groups; ++group) {
    const size_t first_read = FirstRead(static_cast<int>(group), end);
    for (size_t row = first_row_; row < first_read; ++row) {
      served[(row - first_row_) * groups + group] = kNoBlock;
    }
  }
  return served;
}

size_t ServedRows::FirstRead(int group, int end) const {
  if (group == 0) return first_row_;
  const int first = layout_.groups.FirstNeeded(group, need_, end);
  const int row = first < end ? first / layout_.block_size : layout_.BlocksFor(end);
  return std::max(static_cast<size_t>(row), first_row_);
}

}  // namespace baton
