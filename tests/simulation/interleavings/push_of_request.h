// What the two workers agree on about the push of a request.
#pragma once

#include <cstdint>
#include <vector>

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/handoff/kv_blocks.h"

namespace baton {

// Returns a layout with one page in a block: a request has a page for each of its messages.
KvLayout InterleavedLayout();
size_t InterleavedPageBytes();
std::vector<int32_t> InterleavedTokens(int request, int messages);
internal::v1::PushOpen InterleavedOpen(int request, int messages);
// What the CRC of a page is that has the K and V of that request.
uint32_t InterleavedCrc(int request, int page);

}  // namespace baton
