// The configuration of a ReceiveMachine, and the messages of a sender to it.
#pragma once

#include <cstdint>
#include <string>

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/handoff/kv_blocks.h"
#include "common/handoff/kv_digest.h"
#include "decode_worker/receive_machine.h"

namespace baton {

// The receiver of an attempt with a prompt of `tokens` tokens; sender and receiver have this
// layout.
ReceiveConfig MakeReceiverConfig(const KvLayout& layout, int tokens);

// The functions below make the messages of a sender to the receiver of `config`; `source` has the
// sender's K and V.
internal::v1::PushRequest MakeOpen(const ReceiveConfig& config);
// The digest is empty if no sender would make a checkpoint there.
internal::v1::PushRequest MakeCheckpoint(const ReceiveConfig& config, const KvBlocks& source,
                                         int start_token, int end_token);
internal::v1::PushRequest MakeCommit(const ReceiveConfig& config, const KvBlocks& source,
                                     int start_token);
internal::v1::KvDataHeader MakeDataHeader(const ReceiveConfig& config, const KvBlocks& source,
                                          int layer, int layers, int first_token, int end_token,
                                          uint64_t sequence_number);
// The bytes of the whole message on the wire.
std::string EncodeData(const internal::v1::KvDataHeader& header, const KvBlocks& source);

PageCrcTable PageCrcsOf(const KvBlocks& blocks, int tokens);

}  // namespace baton
