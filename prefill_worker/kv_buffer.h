// Makes a KvData message as gRPC sends it. Its payload is slices that point into the KV blocks, or
// into the slots where they are staged, and converted if need be. From blocks in the host's memory
// in a wire type that is not the cache's, the payload is bytes of its own.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "grpcpp/support/byte_buffer.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/handoff/kv_blocks.h"
#include "common/handoff/kv_wire_type.h"

namespace baton {

// A range of contiguous bytes that is at least this long goes out as one slice, uncopied. Shorter
// ranges, which a small block of a small model has, are copied together into slices of up to
// 64 KiB. The reason is that gRPC's work grows with the number of slices: with slices of 384 bytes
// it takes 0.25 CPU seconds for a GB, more than the copy.
inline constexpr size_t kMinKvSliceBytes = size_t{12} << 10;

// Makes the message of `header` and of its layers' rows: `layers` has these rows in order, or they
// lie in `blocks`. `released` is called once, when the last slice that points into the rows is
// destroyed; at once if there is none. It may be called on any thread, possibly deep inside gRPC,
// so it must not call gRPC and must not wait. Until then the rows must keep their bytes. REQUIRES:
// the header's tokens lie within the rows.
grpc::ByteBuffer MakeKvBuffer(const internal::v1::KvDataHeader& header,
                              absl::Span<const KvLayerRows> layers, std::function<void()> released);
grpc::ByteBuffer MakeKvBuffer(const internal::v1::KvDataHeader& header, const KvBlocks& blocks,
                              std::function<void()> released);

// Makes the message in `format`, which converts. The payload is made now and belongs to the
// message. The blocks must keep their bytes until `released` all the same, because the message may
// have to be made once more. REQUIRES: format.converts(); the header's tokens lie within the
// blocks.
grpc::ByteBuffer MakeConvertedKvBuffer(const internal::v1::KvDataHeader& header,
                                       const KvBlocks& blocks, const KvWireFormat& format,
                                       std::function<void()> released);

}  // namespace baton
