// Converts KV pages to a wire type that is not the cache's.
//
// Two CRCs guard a page. The CRC of its bytes in the cache was made when the page was computed. It
// is compared with the page before it is converted, so a block that changed or was reused since is
// noticed. The CRC of its bytes on the wire is made from the converted bytes and goes into
// messages.
//
// If the cache is in a device's memory, the bytes that EncodePage made are sent (LayerStager). If
// it is in the host's memory, they are not kept, because all layers of a prompt may wait to be
// sent. They are made from the blocks again when a message is sent. The receiver compares them with
// the CRC made here, so a block that changes in between is noticed there.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/handoff/kv_blocks.h"
#include "common/handoff/kv_wire_type.h"

namespace baton {

// Writes K or V of the tokens of a layer in the order of a message: values, then scales;
// tokens.size() * format.row_bytes() bytes. Returns false if the wire type cannot represent a
// value. REQUIRES: format.converts(); the rows hold the tokens.
[[nodiscard]] bool EncodeTokens(const KvLayerRows& rows, const KvWireFormat& format,
                                KvLayout::Part part, TokenRange tokens, uint8_t* to);

// Converts the tokens of one page into `to`, which has the wire's layout (KvWireFormat::BlockOf),
// and returns the CRC32C of the bytes there: K values, K scales, V values, V scales.
// INVALID_ARGUMENT if the wire type cannot represent a value. REQUIRES: format.converts(); both
// hold the page, and they do not overlap.
absl::StatusOr<uint32_t> EncodePage(const KvLayerRows& rows, const KvWireFormat& format,
                                    TokenRange page, const KvLayerRows& to);

// Returns the CRC32C of each page of the tokens as it goes over the wire. `cached_crcs` [pages]:
// the CRCs of the pages in the cache. DATA_LOSS if a page differs from its CRC in the cache,
// INVALID_ARGUMENT as EncodePage. REQUIRES: format.converts(); the rows hold the tokens; the tokens
// are whole pages, except at the sequence's end.
absl::StatusOr<std::vector<uint32_t>> WirePageCrcs(const KvLayerRows& rows,
                                                   const KvWireFormat& format, TokenRange tokens,
                                                   absl::Span<const uint32_t> cached_crcs);
// The DATA_LOSS error for a page.
absl::Status ChangedSinceComputed(const LayerTokens& page);

}  // namespace baton
