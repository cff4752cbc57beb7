#include "bench/model/gguf_writer.h"

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

// Bytes at whose multiples the data section and each tensor begin: the format's default.
constexpr uint64_t kAlignment = 32;

uint64_t Aligned(uint64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

// Numbers of the format are little-endian, as this machine's are.
template <class Number>
void AppendNumber(std::string& out, Number value) {
  char raw[sizeof(value)];
  std::memcpy(raw, &value, sizeof(value));
  out.append(raw, sizeof(raw));
}

}  // namespace

size_t GgufTensorEntry::size_bytes() const {
  const GgmlBlock block = *GgmlBlockOf(type);
  BATON_CHECK(!dims.empty() && dims[0] % block.elements == 0, "whole blocks in a row");
  size_t elements = 1;
  for (const uint64_t dim : dims) elements *= dim;
  return elements / block.elements * block.bytes;
}

absl::Status GgufWriter::Write(const void* bytes, size_t size) {
  written_ += size;
  if (std::fwrite(bytes, 1, size, file_) == size) return absl::OkStatus();
  const int error = errno;
  return absl::Status(absl::ErrnoToStatusCode(error),
                      absl::StrCat(name_, ": cannot be written (", strerrordesc_np(error),
                                   "); free space there or choose another path"));
}

absl::Status GgufWriter::WriteHeader(const GgufMetadata& metadata,
                                     absl::Span<const GgufTensorEntry> tensors) {
  std::string header = GgufHeader(metadata, tensors.size());
  uint64_t offset = 0;
  for (const GgufTensorEntry& tensor : tensors) {
    AppendGgufString(header, tensor.name);
    AppendNumber(header, static_cast<uint32_t>(tensor.dims.size()));
    for (const uint64_t dim : tensor.dims) AppendNumber(header, dim);
    AppendNumber(header, static_cast<uint32_t>(tensor.type));
    AppendNumber(header, offset);
    offset = Aligned(offset + tensor.size_bytes());
  }
  BATON_RETURN_IF_ERROR(Write(header.data(), header.size()));
  return EndTensor();
}

absl::Status GgufWriter::WriteData(absl::Span<const uint8_t> bytes) {
  return Write(bytes.data(), bytes.size());
}

absl::Status GgufWriter::EndTensor() {
  const char zeros[kAlignment] = {};
  return Write(zeros, Aligned(written_) - written_);
}

}  // namespace baton
