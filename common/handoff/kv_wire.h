// The encoding of KvData messages: the small fields come first, then the payload as slices that are
// never copied.
//
// The bytes are PushRequest{data{header, header_crc32c, payload}} as any protobuf encoder writes
// them in field order. Only this envelope is encoded and decoded here by hand. The header inside is
// an ordinary protobuf message, which is parsed after its CRC was compared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/kv/token_range.h"
#include "common/rpc/limits.h"

namespace baton {

// The most bytes of a header. With kMaxKvPayloadBytes (limits.h) a message stays below gRPC's
// default limit of 4 MiB.
inline constexpr size_t kMaxKvHeaderBytes = size_t{48} << 10;
// The most bytes of any other PushRequest; an open has 16 bytes for each page.
inline constexpr size_t kMaxPushControlBytes = size_t{2} << 20;

// A received KvData. Header and payload are not checked yet.
struct KvDataMessage {
  std::string header;  // the encoded KvDataHeader
  uint32_t header_crc32c = 0;
  std::vector<grpc::Slice> slices;  // the whole message; the payload is its end
  size_t payload_offset = 0;        // offset in the concatenation of the slices
  size_t payload_bytes = 0;
};

// The tokens that a message has. REQUIRES: the header was checked.
inline TokenRange TokensOf(const internal::v1::KvDataHeader& header) {
  return {static_cast<int>(header.first_token()),
          static_cast<int>(header.first_token() + header.token_count())};
}

// Encodes everything of the message before the payload. REQUIRES: sizes within the limits above,
// payload_bytes > 0.
std::string EncodeKvDataPrefix(absl::string_view header, uint32_t header_crc32c,
                               size_t payload_bytes);

// Returns the slices of a buffer without copying their bytes. INVALID_ARGUMENT if the buffer is
// empty or damaged.
absl::StatusOr<std::vector<grpc::Slice>> SlicesOf(const grpc::ByteBuffer& buffer);

// Whether the message begins as a KvData. Protobuf parses all other messages.
bool IsKvData(const std::vector<grpc::Slice>& slices);

// Decodes the envelope. INVALID_ARGUMENT for anything that is not exactly the envelope above within
// the limits.
absl::StatusOr<KvDataMessage> DecodeKvData(std::vector<grpc::Slice> slices);

// Reads bytes across the borders of slices, forwards. Borrows the slices.
class SliceReader {
 public:
  SliceReader(const std::vector<grpc::Slice>& slices, size_t offset);
  size_t remaining() const { return remaining_; }
  // Read and Skip return false, and do not move, when fewer than `bytes` remain.
  [[nodiscard]] bool Read(void* to, size_t bytes);
  [[nodiscard]] bool Skip(size_t bytes);
  // The next bytes as they lie in one slice; none if all were read.
  absl::Span<const uint8_t> Run() const;

 private:
  bool Advance(uint8_t* to, size_t bytes);
  void EnterSlice();

  const std::vector<grpc::Slice>& slices_;
  size_t slice_ = 0;
  size_t position_ = 0;  // offset in slices_[slice_]
  size_t remaining_ = 0;
};

}  // namespace baton
