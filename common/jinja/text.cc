#include "common/jinja/text.h"

#include <algorithm>
#include <cstdint>

namespace baton::jinja {
namespace {

uint8_t ByteAt(absl::string_view bytes, size_t position) {
  return static_cast<uint8_t>(bytes[position]);
}

bool IsContinuation(absl::string_view bytes, size_t position) {
  return position < bytes.size() && (ByteAt(bytes, position) & 0xC0) == 0x80;
}

// The code point at `position`. REQUIRES: a whole character of `size` bytes stands there.
uint32_t CodePoint(absl::string_view bytes, size_t position, size_t size) {
  const uint8_t lead = ByteAt(bytes, position);
  if (size == 1) return lead;
  uint32_t point = lead & (0xFFu >> (size + 1));
  // No step: at most 4 bytes.
  for (size_t i = 1; i < size; ++i) point = (point << 6) | (ByteAt(bytes, position + i) & 0x3Fu);
  return point;
}

bool IsSpacePoint(uint32_t point) {
  if (point < 0x80) return (point >= 0x09 && point <= 0x0D) || (point >= 0x1C && point <= 0x20);
  if (point >= 0x2000 && point <= 0x200A) return true;
  switch (point) {
    case 0x85:
    case 0xA0:
    case 0x1680:
    case 0x2028:
    case 0x2029:
    case 0x202F:
    case 0x205F:
    case 0x3000:
      return true;
    default:
      return false;
  }
}

// What the heap needs for one allocation beside its bytes.
constexpr size_t kAllocationBytes = 16;

size_t Grown(size_t capacity, size_t size, size_t more) {
  return size + more <= capacity ? capacity : std::max(size + more, 2 * capacity);
}

}  // namespace

void Text::MakeRoom(size_t bytes, size_t runs) {
  bytes_.reserve(Grown(bytes_.capacity(), bytes_.size(), bytes));
  runs_.reserve(Grown(runs_.capacity(), runs_.size(), runs));
}

size_t Text::MemoryBytesWithRoom(size_t bytes, size_t runs) const {
  return sizeof(Text) + 2 * kAllocationBytes + Grown(bytes_.capacity(), bytes_.size(), bytes) +
         Grown(runs_.capacity(), runs_.size(), runs) * sizeof(Run);
}

void Text::Append(absl::string_view bytes, bool trusted) {
  if (bytes.empty()) return;
  bytes_.append(bytes.data(), bytes.size());
  if (!runs_.empty() && runs_.back().trusted == trusted) {
    runs_.back().end = bytes_.size();
  } else {
    runs_.push_back({.end = bytes_.size(), .trusted = trusted});
  }
}

void Text::AppendSlice(const Text& other, size_t begin, size_t end) {
  if (begin >= end) return;
  const absl::string_view source = other.bytes();
  for (size_t run = other.RunAt(begin); begin < end; ++run) {  // no step: TextBuilder counts runs
    const size_t stop = std::min(end, other.runs_[run].end);
    Append(source.substr(begin, stop - begin), other.runs_[run].trusted);
    begin = stop;
  }
}

Text Text::Slice(size_t begin, size_t end) const {
  Text slice;
  slice.AppendSlice(*this, begin, end);
  return slice;
}

void Text::Distrust() {
  runs_.clear();
  if (!bytes_.empty()) runs_.push_back({.end = bytes_.size(), .trusted = false});
}

bool Text::TrustedBetween(size_t begin, size_t end) const {
  if (begin >= end) return true;
  // Neighbouring runs differ in trust, so a trusted range lies inside one run.
  const Run& run = runs_[RunAt(begin)];
  return run.trusted && end <= run.end;
}

size_t Text::RunAt(size_t position) const {
  const auto run = std::upper_bound(runs_.begin(), runs_.end(), position,
                                    [](size_t value, const Run& r) { return value < r.end; });
  return static_cast<size_t>(run - runs_.begin());
}

size_t CharacterSize(absl::string_view bytes, size_t position) {
  const uint8_t lead = ByteAt(bytes, position);
  size_t size = 1;
  if (lead >= 0xC2 && lead <= 0xDF) size = 2;
  if (lead >= 0xE0 && lead <= 0xEF) size = 3;
  if (lead >= 0xF0 && lead <= 0xF4) size = 4;
  for (size_t i = 1; i < size; ++i) {  // no step: at most 4 bytes
    if (!IsContinuation(bytes, position + i)) return 1;
  }
  return size;
}

size_t CharacterCount(absl::string_view bytes) {
  size_t count = 0;
  // No step: the caller has paid for reading the text.
  for (size_t at = 0; at < bytes.size(); at += CharacterSize(bytes, at)) ++count;
  return count;
}

size_t LastCharacterSize(absl::string_view bytes, size_t begin, size_t end) {
  for (size_t size = 4; size > 1; --size) {  // no step: at most 3 rounds
    if (end - begin >= size && CharacterSize(bytes, end - size) == size) return size;
  }
  return 1;
}

size_t SpaceSize(absl::string_view bytes, size_t position) {
  const size_t size = CharacterSize(bytes, position);
  if (size == 1 && ByteAt(bytes, position) >= 0x80) return 0;
  return IsSpacePoint(CodePoint(bytes, position, size)) ? size : 0;
}

size_t SkipSpace(absl::string_view bytes, size_t begin, size_t end) {
  while (begin < end) {  // no step: the caller has paid for reading the text
    const size_t size = SpaceSize(bytes, begin);
    if (size == 0) break;
    begin += size;
  }
  return std::min(begin, end);
}

size_t SkipSpaceBackwards(absl::string_view bytes, size_t begin, size_t end) {
  while (end > begin) {  // no step: as in SkipSpace
    size_t start = end - 1;
    // No step: at most 3 rounds.
    while (start > begin && end - start < 4 && IsContinuation(bytes, start)) --start;
    if (SpaceSize(bytes, start) != end - start) break;
    end = start;
  }
  return end;
}

}  // namespace baton::jinja
