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

// Numbers of the format's value types.
constexpr uint32_t kUint32 = 4;
constexpr uint32_t kInt32 = 5;
constexpr uint32_t kFloat32 = 6;
constexpr uint32_t kString = 8;
constexpr uint32_t kArray = 9;

uint64_t Aligned(uint64_t offset) { return (offset + kAlignment - 1) / kAlignment * kAlignment; }

// Numbers of the format are little-endian, as this machine's are.
template <class Number>
void AppendNumber(std::string& out, Number value) {
  char raw[sizeof(value)];
  std::memcpy(raw, &value, sizeof(value));
  out.append(raw, sizeof(raw));
}

void AppendString(std::string& out, const std::string& text) {
  AppendNumber<uint64_t>(out, text.size());
  out += text;
}

}  // namespace

size_t GgufTensorEntry::size_bytes() const {
  const GgmlBlock block = *GgmlBlockOf(type);
  BATON_CHECK(!dims.empty() && dims[0] % block.elements == 0, "whole blocks in a row");
  size_t elements = 1;
  for (const uint64_t dim : dims) elements *= dim;
  return elements / block.elements * block.bytes;
}

void GgufMetadata::Begin(const std::string& key, uint32_t type) {
  ++count_;
  AppendString(bytes_, key);
  AppendNumber(bytes_, type);
}

void GgufMetadata::Text(const std::string& key, const std::string& value) {
  Begin(key, kString);
  AppendString(bytes_, value);
}

void GgufMetadata::Uint32(const std::string& key, uint32_t value) {
  Begin(key, kUint32);
  AppendNumber(bytes_, value);
}

void GgufMetadata::Float32(const std::string& key, float value) {
  Begin(key, kFloat32);
  AppendNumber(bytes_, value);
}

void GgufMetadata::Texts(const std::string& key, const std::vector<std::string>& values) {
  Begin(key, kArray);
  AppendNumber(bytes_, kString);
  AppendNumber<uint64_t>(bytes_, values.size());
  for (const std::string& value : values) AppendString(bytes_, value);
}

void GgufMetadata::Int32s(const std::string& key, const std::vector<int32_t>& values) {
  Begin(key, kArray);
  AppendNumber(bytes_, kInt32);
  AppendNumber<uint64_t>(bytes_, values.size());
  for (const int32_t value : values) AppendNumber(bytes_, value);
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
  std::string header = "GGUF";
  AppendNumber<uint32_t>(header, 3);
  AppendNumber<uint64_t>(header, tensors.size());
  AppendNumber(header, metadata.count());
  header += metadata.bytes();
  uint64_t offset = 0;
  for (const GgufTensorEntry& tensor : tensors) {
    AppendString(header, tensor.name);
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
