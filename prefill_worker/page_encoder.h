// KV pages as they go over the wire in a type that is not the cache's.
//
// Which bytes are guarded by what: the CRC of a page's bytes in the cache was made when the page
// was computed. It is compared with the page here, so a block that changed or was reused since is
// seen; the CRC that goes into messages is made here too, of the page's bytes on the wire. They are
// not kept: a message's bytes are made from the blocks once more when it is sent. The receiver
// compares those with the CRC made here, so a block that changes in between is seen there.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/rpc/kv_blocks.h"
#include "common/rpc/kv_wire_type.h"

namespace baton {

// Writes K or V of tokens [first_token, end_token) of a layer as a message has them: values, then
// scales; (end_token - first_token) * format.row_bytes() bytes. False where a value cannot be said
// in the wire type. REQUIRES: format.converts(); the rows hold the tokens.
[[nodiscard]] bool EncodeTokens(const KvLayerRows& rows, const KvWireFormat& format,
                                KvLayout::Part part, int first_token, int end_token, uint8_t* to);

// The CRC32C of each page of [first_token, end_token) as it goes over the wire: K values, K scales,
// V values, V scales. `cached_crcs`: of the pages in the cache. DATA_LOSS where a page is not what
// its CRC in the cache says, INVALID_ARGUMENT where the wire type cannot say a value. REQUIRES: as
// EncodeTokens; whole pages but for the sequence's last.
absl::StatusOr<std::vector<uint32_t>> WirePageCrcs(const KvLayerRows& rows,
                                                   const KvWireFormat& format, int first_token,
                                                   int end_token,
                                                   absl::Span<const uint32_t> cached_crcs);
// The first of these errors, for a page of tokens [first_token, end_token).
absl::Status ChangedSinceComputed(int layer, int first_token, int end_token);

}  // namespace baton
