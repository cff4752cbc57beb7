// A string that knows, for each byte, whether the template or a message wrote it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace baton::jinja {

// A value; not thread-safe. Offsets and sizes are bytes.
class Text {
 public:
  struct Run {
    size_t end = 0;  // one past the run's last byte
    bool trusted = false;
  };

  Text() = default;
  Text(absl::string_view bytes, bool trusted) { Append(bytes, trusted); }

  void Append(absl::string_view bytes, bool trusted);
  void Append(const Text& other) { AppendSlice(other, 0, other.size()); }
  // Appends other[begin, end). REQUIRES: begin <= end <= other.size() and `other` is another
  // object.
  void AppendSlice(const Text& other, size_t begin, size_t end);
  Text Slice(size_t begin, size_t end) const;
  // Every byte becomes untrusted.
  void Distrust();
  // The bytes, in place, for changes that keep each byte's place and origin.
  std::string& mutable_bytes() { return bytes_; }

  absl::string_view bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // No byte of [begin, end) is untrusted.
  bool TrustedBetween(size_t begin, size_t end) const;
  bool trusted() const { return TrustedBetween(0, size()); }
  // Ascending; neighbours differ in `trusted`; the last one ends at size().
  const std::vector<Run>& runs() const { return runs_; }
  size_t MemoryBytes() const { return sizeof(Text) + size() + runs_.size() * sizeof(Run); }

 private:
  size_t RunAt(size_t position) const;

  std::string bytes_;
  std::vector<Run> runs_;
};

// UTF-8 helpers. A byte that starts no valid character counts as a character of its own.
// Size of the character at `position`. REQUIRES: position < bytes.size().
size_t CharacterSize(absl::string_view bytes, size_t position);
size_t CharacterCount(absl::string_view bytes);
// Offsets of all characters, and bytes.size() at the end.
std::vector<size_t> CharacterOffsets(absl::string_view bytes);

// White space as Python's str.isspace() sees it: size of the white-space character at `position`, 0
// if there is none.
size_t SpaceSize(absl::string_view bytes, size_t position);
// First position in [begin, end) that is no white space, or `end`.
size_t SkipSpace(absl::string_view bytes, size_t begin, size_t end);
// One past the last character of [begin, end) that is no white space, or `begin`.
size_t SkipSpaceBackwards(absl::string_view bytes, size_t begin, size_t end);

}  // namespace baton::jinja
