// A string that knows of each byte whether it may be trusted: whether the template or a message
// wrote it.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace baton::jinja {

// A value type. Not thread-safe. Offsets and sizes are in bytes.
class Text {
 public:
  // Consecutive bytes of equal trust. A run begins where the one before it ends.
  struct Run {
    size_t end = 0;  // offset one past the last byte
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
  // Marks every byte as untrusted.
  void Distrust();
  // The bytes, to be changed in place. REQUIRES: the size stays, and each byte keeps its origin.
  std::string& mutable_bytes() { return bytes_; }

  absl::string_view bytes() const { return bytes_; }
  size_t size() const { return bytes_.size(); }
  bool empty() const { return bytes_.empty(); }
  // Whether all bytes of [begin, end) are trusted.
  bool TrustedBetween(size_t begin, size_t end) const;
  bool trusted() const { return TrustedBetween(0, size()); }
  // The runs in ascending order. Neighbours differ in `trusted`; the last one ends at size().
  const std::vector<Run>& runs() const { return runs_; }
  // The number of runs that [begin, end) touches. REQUIRES: begin < end <= size().
  size_t RunsBetween(size_t begin, size_t end) const { return RunAt(end - 1) - RunAt(begin) + 1; }
  size_t MemoryBytes() const { return MemoryBytesWithRoom(0, 0); }
  // Makes room for `bytes` more bytes and `runs` more runs; what does not fit at least doubles.
  void MakeRoom(size_t bytes, size_t runs);
  // What MemoryBytes() is once there is that room.
  size_t MemoryBytesWithRoom(size_t bytes, size_t runs) const;

 private:
  size_t RunAt(size_t position) const;

  std::string bytes_;
  std::vector<Run> runs_;
};

// In the functions below a byte that begins no valid UTF-8 character is a character of its own.
// The size of the character at `position`. REQUIRES: position < bytes.size().
size_t CharacterSize(absl::string_view bytes, size_t position);
size_t CharacterCount(absl::string_view bytes);
// The size of the last character of [begin, end). REQUIRES: begin < end, both between characters.
size_t LastCharacterSize(absl::string_view bytes, size_t begin, size_t end);

// The size of the white-space character at `position`, 0 if there is none. White space is what
// Python's str.isspace() says.
size_t SpaceSize(absl::string_view bytes, size_t position);
// The first position in [begin, end) that is not white space; `end` if there is none.
size_t SkipSpace(absl::string_view bytes, size_t begin, size_t end);
// The position one past the last character of [begin, end) that is not white space; `begin` if
// there is none.
size_t SkipSpaceBackwards(absl::string_view bytes, size_t begin, size_t end);

}  // namespace baton::jinja
