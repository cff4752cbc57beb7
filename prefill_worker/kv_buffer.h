// A KvData message as gRPC sends it: its payload is slices that point into the KV blocks.
#pragma once

#include <functional>

#include "grpcpp/support/byte_buffer.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/rpc/kv_blocks.h"

namespace baton {

// `released` is called once, when the last slice is destroyed, on whatever thread that happens,
// possibly deep inside gRPC: it must not call gRPC nor wait. Until then the rows named by `header`
// must keep their bytes. REQUIRES: the header's ranges lie within the blocks.
grpc::ByteBuffer MakeKvBuffer(const internal::v1::KvDataHeader& header, const KvBlocks& blocks,
                              std::function<void()> released);

}  // namespace baton
