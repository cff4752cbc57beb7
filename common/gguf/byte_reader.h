// A cursor over bytes that are not trusted. It reads nothing beyond the end, and compares a length
// with what remains before it uses it.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace baton {

static_assert(std::endian::native == std::endian::little, "GGUF is read as little-endian");

// Borrows the bytes; the views that it returns point into them. Read, Skip and ReadString return
// false, and do not move, when too few bytes remain. Not thread-safe.
class ByteReader {
 public:
  explicit ByteReader(absl::Span<const uint8_t> bytes) : bytes_(bytes) {}

  size_t position() const { return position_; }
  size_t remaining() const { return bytes_.size() - position_; }

  template <typename T>
  [[nodiscard]] bool Read(T* value) {
    static_assert(std::is_arithmetic_v<T>);
    if (remaining() < sizeof(T)) return false;
    std::memcpy(value, bytes_.data() + position_, sizeof(T));
    position_ += sizeof(T);
    return true;
  }

  [[nodiscard]] bool Skip(uint64_t count) {
    if (remaining() < count) return false;
    position_ += static_cast<size_t>(count);
    return true;
  }

  // Reads a 64-bit length, then as many bytes.
  [[nodiscard]] bool ReadString(absl::string_view* text) {
    const size_t start = position_;
    uint64_t length = 0;
    if (!Read(&length)) return false;
    if (remaining() < length) {
      position_ = start;
      return false;
    }
    *text = absl::string_view(reinterpret_cast<const char*>(bytes_.data() + position_),
                              static_cast<size_t>(length));
    position_ += static_cast<size_t>(length);
    return true;
  }

  // The bytes from `start`, an earlier position(), to here.
  absl::Span<const uint8_t> Since(size_t start) const {
    return bytes_.subspan(start, position_ - start);
  }

 private:
  absl::Span<const uint8_t> bytes_;
  size_t position_ = 0;
};

}  // namespace baton
