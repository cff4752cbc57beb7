// A KvData message as gRPC sends it: its payload is slices that point into the KV blocks, or where
// they are staged, or, in a wire type that is not the cache's, bytes made for it.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "absl/types/span.h"
#include "grpcpp/support/byte_buffer.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/rpc/kv_blocks.h"
#include "common/rpc/kv_wire_type.h"

namespace baton {

// Runs of bytes that lie together go out as one slice, uncopied. Shorter ones than
// this, as a small block of a small model has them, are copied into slices of up to 64 KiB: gRPC's
// work is by slice, and at 384 bytes each it takes 0.25 CPU seconds for a GB, more than the copy.
inline constexpr size_t kMinKvSliceBytes = size_t{12} << 10;

// `layers` are the rows of the header's layers, in order; or else they are those of `blocks`.
// `released` is called once, when the last slice that points into them is destroyed (now, if there
// is none), on whatever thread that happens, possibly deep inside gRPC: it must not call gRPC nor
// wait. Until then the rows named by `header` must keep their bytes. REQUIRES: the header's ranges
// lie within them.
grpc::ByteBuffer MakeKvBuffer(const internal::v1::KvDataHeader& header,
                              absl::Span<const KvLayerRows> layers, std::function<void()> released);
grpc::ByteBuffer MakeKvBuffer(const internal::v1::KvDataHeader& header, const KvBlocks& blocks,
                              std::function<void()> released);

// The same in `format`, which converts: the payload is made now, and belongs to the message. The
// rows must keep their bytes until `released` all the same: it may be asked for once more.
grpc::ByteBuffer MakeConvertedKvBuffer(const internal::v1::KvDataHeader& header,
                                       absl::Span<const KvLayerRows> layers,
                                       const KvWireFormat& format, std::function<void()> released);
grpc::ByteBuffer MakeConvertedKvBuffer(const internal::v1::KvDataHeader& header,
                                       const KvBlocks& blocks, const KvWireFormat& format,
                                       std::function<void()> released);

}  // namespace baton
