#include "common/handoff/kv_wire.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"

namespace baton {
namespace {

// Protobuf tags: field number << 3 | wire type.
constexpr uint8_t kDataTag = 3 << 3 | 2;       // PushRequest.data
constexpr uint8_t kHeaderTag = 1 << 3 | 2;     // KvData.header
constexpr uint8_t kHeaderCrcTag = 2 << 3 | 5;  // KvData.header_crc32c
constexpr uint8_t kPayloadTag = 15 << 3 | 2;   // KvData.payload

size_t VarintBytes(size_t value) {
  size_t bytes = 1;
  for (; value >= 0x80; value >>= 7) ++bytes;
  return bytes;
}

void AppendVarint(size_t value, std::string& out) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>((value & 0x7F) | 0x80));
  out.push_back(static_cast<char>(value));
}

bool ReadTag(SliceReader& reader, uint8_t tag) {
  uint8_t byte = 0;
  return reader.Read(&byte, 1) && byte == tag;
}

// Reads a length in its shortest form, of at most four bytes: no length here reaches 2^28.
bool ReadLength(SliceReader& reader, size_t& length) {
  length = 0;
  for (size_t i = 0; i < 4; ++i) {
    uint8_t byte = 0;
    if (!reader.Read(&byte, 1)) return false;
    length |= static_cast<size_t>(byte & 0x7F) << (7 * i);
    if ((byte & 0x80) == 0) return byte != 0 || i == 0;
  }
  return false;
}

absl::Status Malformed(const char* what) {
  return absl::InvalidArgumentError(absl::StrCat("KvData message: ", what));
}

}  // namespace

std::string EncodeKvDataPrefix(absl::string_view header, uint32_t header_crc32c,
                               size_t payload_bytes) {
  BATON_CHECK(header.size() <= kMaxKvHeaderBytes, "the sender bounds the pages of a message");
  BATON_CHECK(payload_bytes > 0 && payload_bytes <= kMaxKvPayloadBytes,
              "the sender bounds payloads");
  const size_t data_bytes = 1 + VarintBytes(header.size()) + header.size() + 5 + 1 +
                            VarintBytes(payload_bytes) + payload_bytes;
  std::string out;
  out.reserve(header.size() + 24);
  out.push_back(static_cast<char>(kDataTag));
  AppendVarint(data_bytes, out);
  out.push_back(static_cast<char>(kHeaderTag));
  AppendVarint(header.size(), out);
  out.append(header.data(), header.size());
  out.push_back(static_cast<char>(kHeaderCrcTag));
  for (int shift = 0; shift < 32; shift += 8) {
    out.push_back(static_cast<char>((header_crc32c >> shift) & 0xFF));
  }
  out.push_back(static_cast<char>(kPayloadTag));
  AppendVarint(payload_bytes, out);
  return out;
}

absl::StatusOr<std::vector<grpc::Slice>> SlicesOf(const grpc::ByteBuffer& buffer) {
  std::vector<grpc::Slice> slices;
  if (!buffer.Valid() || !buffer.Dump(&slices).ok() || buffer.Length() == 0) {
    return absl::InvalidArgumentError("push message: is empty or damaged");
  }
  return slices;
}

bool IsKvData(const std::vector<grpc::Slice>& slices) {
  SliceReader reader(slices, 0);
  return ReadTag(reader, kDataTag);
}

absl::StatusOr<KvDataMessage> DecodeKvData(std::vector<grpc::Slice> slices) {
  KvDataMessage message;
  SliceReader reader(slices, 0);
  const size_t total = reader.remaining();
  size_t length = 0;
  if (!ReadTag(reader, kDataTag) || !ReadLength(reader, length)) return Malformed("no data field");
  if (length != reader.remaining()) return Malformed("length of data differs from the message's");
  if (!ReadTag(reader, kHeaderTag) || !ReadLength(reader, length)) return Malformed("no header");
  if (length == 0 || length > kMaxKvHeaderBytes) return Malformed("header size out of range");
  message.header.resize(length);
  if (!reader.Read(message.header.data(), length)) return Malformed("header cut short");
  uint8_t crc[4];
  if (!ReadTag(reader, kHeaderCrcTag) || !reader.Read(crc, sizeof(crc))) {
    return Malformed("no header_crc32c");
  }
  for (size_t i = 0; i < sizeof(crc); ++i) {
    message.header_crc32c |= static_cast<uint32_t>(crc[i]) << (8 * i);
  }
  if (!ReadTag(reader, kPayloadTag) || !ReadLength(reader, length)) return Malformed("no payload");
  if (length == 0 || length > kMaxKvPayloadBytes) return Malformed("payload size out of range");
  if (length != reader.remaining()) return Malformed("payload length differs from the message's");
  message.payload_bytes = length;
  message.payload_offset = total - length;
  message.slices = std::move(slices);
  return message;
}

SliceReader::SliceReader(const std::vector<grpc::Slice>& slices, size_t offset) : slices_(slices) {
  for (const grpc::Slice& slice : slices) remaining_ += slice.size();
  EnterSlice();
  BATON_CHECK(Skip(offset), "an offset within the message");
}

bool SliceReader::Read(void* to, size_t bytes) { return Advance(static_cast<uint8_t*>(to), bytes); }

bool SliceReader::Skip(size_t bytes) { return Advance(nullptr, bytes); }

bool SliceReader::Advance(uint8_t* to, size_t bytes) {
  if (bytes > remaining_) return false;
  remaining_ -= bytes;
  while (bytes > 0) {
    const grpc::Slice& slice = slices_[slice_];
    const size_t count = std::min(bytes, slice.size() - position_);
    if (to != nullptr) {
      std::memcpy(to, slice.begin() + position_, count);
      to += count;
    }
    position_ += count;
    bytes -= count;
    EnterSlice();
  }
  return true;
}

absl::Span<const uint8_t> SliceReader::Run() const {
  if (remaining_ == 0) return {};
  const grpc::Slice& slice = slices_[slice_];
  return {slice.begin() + position_, slice.size() - position_};
}

// Leaves slices without a byte that is not read yet.
void SliceReader::EnterSlice() {
  while (slice_ < slices_.size() && position_ == slices_[slice_].size()) {
    ++slice_;
    position_ = 0;
  }
}

}  // namespace baton
