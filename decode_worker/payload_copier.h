// Copies the payload of a KvData message from the network's slices into the blocks it is for.
#pragma once

#include "common/rpc/kv_blocks.h"
#include "common/rpc/kv_wire.h"
#include "decode_worker/kv_receiver.h"

namespace baton {

// Writes the rows of `copy.runs`, nothing else, and answers with the CRCs of the pages as they then
// lie in the blocks. Where the payload's type is not the cache's it converts, and the CRCs to
// compare with the header's are of the bytes on the wire: of a page its K values, K scales, V
// values and V scales. What lies in the blocks afterwards is compared with what the conversion
// gave.
//
// Not ok, with some rows written perhaps, when the payload is shorter than the header says, or when
// a block does not hold what was just converted into it: somebody else writes there. REQUIRES: the
// blocks are the sequence's and hold the header's ranges; `message` is the copy's.
KvReceiver::CopyDone CopyPayload(const KvReceiver::Copy& copy, const KvDataMessage& message,
                                 const KvBlocks& blocks);

// The same of one run, or of whole pages of one, to wherever `to` is; its CRCs are added to `done`.
// False where `done` is not ok. `format` is that of the copy, for the layout of `to`.
bool CopyRun(const KvReceiver::Copy& copy, const KvDataMessage& message, const KvWireFormat& format,
             const KvReceiver::Run& run, const KvLayerRows& to, KvReceiver::CopyDone& done);

}  // namespace baton
