// How a KvData message lies on the wire: small fields first, then the payload as slices that nobody
// copied.
//
// The bytes are PushRequest{data{header, header_crc32c, payload}} as any protobuf encoder writes
// them in field order. Only this envelope is taken apart by hand; the header inside is an ordinary
// protobuf message, parsed after its CRC agreed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/slice.h"

#include "common/rpc/limits.h"

namespace baton {

// With kMaxKvPayloadBytes (limits.h) a message stays below gRPC's default of 4 MiB.
inline constexpr size_t kMaxKvHeaderBytes = size_t{48} << 10;
// Every other PushRequest: an open names 16 bytes a page.
inline constexpr size_t kMaxPushControlBytes = size_t{2} << 20;

// A received KvData: header and payload are not checked yet.
struct KvDataMessage {
  std::string header;  // KvDataHeader as encoded
  uint32_t header_crc32c = 0;
  std::vector<grpc::Slice> slices;  // of the whole message; the payload is its tail
  size_t payload_offset = 0;        // in the slices' concatenation
  size_t payload_bytes = 0;
};

// Everything of the message before the payload. REQUIRES: sizes within the limits above,
// payload_bytes > 0.
std::string EncodeKvDataPrefix(absl::string_view header, uint32_t header_crc32c,
                               size_t payload_bytes);

// The buffer's slices, by reference. INVALID_ARGUMENT when it is empty or damaged.
absl::StatusOr<std::vector<grpc::Slice>> SlicesOf(const grpc::ByteBuffer& buffer);

// Whether the message says that it is a KvData; everything else is left to protobuf.
bool IsKvData(const std::vector<grpc::Slice>& slices);

// INVALID_ARGUMENT for anything that is not exactly the envelope above, sizes and limits included.
absl::StatusOr<KvDataMessage> DecodeKvData(std::vector<grpc::Slice> slices);

// Reads bytes across the borders of slices, forwards. Borrows the slices.
class SliceReader {
 public:
  SliceReader(const std::vector<grpc::Slice>& slices, size_t offset);
  size_t remaining() const { return remaining_; }
  // False, and nothing read, when fewer than `bytes` remain.
  [[nodiscard]] bool Read(void* to, size_t bytes);
  [[nodiscard]] bool Skip(size_t bytes);

 private:
  bool Advance(uint8_t* to, size_t bytes);

  const std::vector<grpc::Slice>& slices_;
  size_t slice_ = 0;
  size_t position_ = 0;  // in slices_[slice_]
  size_t remaining_ = 0;
};

}  // namespace baton
