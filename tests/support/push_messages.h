// A receiver to be told what a sender says, and the messages of that sender.
#pragma once

#include <cstdint>
#include <string>

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/handoff/kv_blocks.h"
#include "common/handoff/kv_digest.h"
#include "decode_worker/kv_receiver.h"

namespace baton {

// Of an attempt at `tokens` tokens, all of the prompt, on two workers of this layout.
KvReceiver::Config MakeReceiverConfig(const KvLayout& layout, int tokens);

// Those that a sender with its K and V in `source` sends to the receiver of `config`.
internal::v1::PushRequest MakeOpen(const KvReceiver::Config& config);
// Without a digest where no sender would make one.
internal::v1::PushRequest MakeCheckpoint(const KvReceiver::Config& config, const KvBlocks& source,
                                         int start_token, int end_token);
internal::v1::PushRequest MakeCommit(const KvReceiver::Config& config, const KvBlocks& source,
                                     int start_token);
internal::v1::KvDataHeader MakeDataHeader(const KvReceiver::Config& config, const KvBlocks& source,
                                          int layer, int layers, int first_token, int end_token,
                                          uint64_t sequence_number);
// The whole message as it is on the wire.
std::string EncodeData(const internal::v1::KvDataHeader& header, const KvBlocks& source);

PageCrcTable PageCrcsOf(const KvBlocks& blocks, int tokens);

}  // namespace baton
