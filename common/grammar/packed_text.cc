#include "common/grammar/packed_text.h"

#include <zlib.h>

#include <new>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"

namespace baton {
namespace {

constexpr size_t kSizeBytes = 4;
constexpr size_t kMaxTextBytes = (size_t{1} << 30) - 1;

Bytef* Bytes(std::string& text, size_t at) { return reinterpret_cast<Bytef*>(text.data() + at); }
const Bytef* Bytes(absl::string_view text) { return reinterpret_cast<const Bytef*>(text.data()); }

}  // namespace

std::string PackText(absl::string_view text) {
  BATON_CHECK(text.size() <= kMaxTextBytes, "a text that is packed is shorter than 1 GiB");
  uLongf bytes = compressBound(text.size());
  std::string packed(kSizeBytes + bytes, '\0');
  for (size_t i = 0; i < kSizeBytes; ++i) packed[i] = static_cast<char>(text.size() >> (8 * i));
  const int result =
      compress2(Bytes(packed, kSizeBytes), &bytes, Bytes(text), text.size(), Z_DEFAULT_COMPRESSION);
  if (result == Z_MEM_ERROR) throw std::bad_alloc();
  BATON_CHECK(result == Z_OK, "the bound of zlib is enough");
  packed.resize(kSizeBytes + bytes);
  return packed;
}

absl::StatusOr<std::string> UnpackText(absl::string_view packed, size_t max_bytes) {
  const absl::Status damaged = absl::DataLossError("a packed text is damaged");
  if (packed.size() < kSizeBytes) return damaged;
  size_t size = 0;
  for (size_t i = 0; i < kSizeBytes; ++i) {
    size |= static_cast<size_t>(static_cast<unsigned char>(packed[i])) << (8 * i);
  }
  if (size > max_bytes) {
    return absl::ResourceExhaustedError(
        absl::StrCat("a compressed grammar unpacks to ", size, " bytes, more than ", max_bytes));
  }
  packed.remove_prefix(kSizeBytes);
  std::string text(size, '\0');
  uLongf unpacked = size;
  uLong used = packed.size();
  const int result = uncompress2(Bytes(text, 0), &unpacked, Bytes(packed), &used);
  if (result == Z_MEM_ERROR) {
    return absl::ResourceExhaustedError("not enough memory to decompress a compiled grammar");
  }
  if (result != Z_OK || unpacked != size || used != packed.size()) return damaged;
  return text;
}

}  // namespace baton
