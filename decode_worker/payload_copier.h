// Copies the payload of a KvData message from the network's slices into the sequence's blocks, or
// into a slot on the way there.
#pragma once

#include "common/handoff/kv_blocks.h"
#include "common/handoff/kv_wire.h"
#include "decode_worker/receive_events.h"

namespace baton {

// Writes the rows of `copy.ranges`, nothing else. Returns the CRCs of the pages, made from the
// bytes that are in the blocks afterwards. If the payload's type is not the cache's, it converts.
// Then the CRCs to compare with the header's are made from the bytes on the wire: a page's K
// values, K scales, V values and V scales. The bytes in the blocks are compared with the result of
// the conversion.
//
// The result is not ok if the payload is shorter than the header says, or if a block does not hold
// the bytes that were just converted into it, because other code writes there. Then some rows may
// have been written. REQUIRES: the blocks are the sequence's and reach the header's
// tokens; `message` is the copy's.
ReceiveEvent::CopyDone CopyPayload(const ReceiveAction::Copy& copy, const KvDataMessage& message,
                                   const KvBlocks& blocks);

// Copies `range`, one of the copy's ranges or whole pages of one, to `slot`, and adds the CRCs to
// compare with the header's to `done`. REQUIRES: no other thread writes to `slot`. Bytes that have
// to be converted are read and written once: their CRC is made from the payload, and block_crcs
// stay unchanged. Returns false if the payload is too short; then `done` is not ok. `format` is the
// copy's wire type for the layout of `slot`.
bool CopyRange(const ReceiveAction::Copy& copy, const KvDataMessage& message,
               const KvWireFormat& format, const LayerTokens& range, const KvLayerRows& slot,
               ReceiveEvent::CopyDone& done);

}  // namespace baton
