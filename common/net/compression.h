// Baton's messages are never compressed: a small one could grow without bound where it is unpacked.
#pragma once

#include <utility>

#include "grpc/compression.h"
#include "grpc/grpc.h"

namespace baton {

// Arguments of servers and channels. With them a compressed message is UNIMPLEMENTED, and nothing
// unpacks it before that is noticed.
inline constexpr std::pair<const char*, int> kNoCompression[] = {
    {GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1 << GRPC_COMPRESS_NONE},
    {GRPC_ARG_ENABLE_PER_MESSAGE_DECOMPRESSION, 0},
};

}  // namespace baton
