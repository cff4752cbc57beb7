// The checks of a push at the decode worker before a message is trusted. They keep no state: any
// thread may call them.
#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "common/handoff/carried_tokens.h"
#include "common/handoff/kv_wire_type.h"
#include "decode_worker/receive_events.h"

namespace baton {

bool SameKey(const internal::v1::AttemptKey& a, const internal::v1::AttemptKey& b);
// Compares every byte whatever the outcome, so that its time reveals nothing about the secret.
bool SameSecret(const std::string& a, const std::string& b);

// FAILED_PRECONDITION if the other side runs another model.
absl::Status CheckIdentity(const ReceiveConfig& config, const internal::v1::PushOpen& open);
// The terms on which both sides agree with the open.
struct PushTerms {
  KvType wire;
  std::string numerics = {};  // as in ReceiveAction::TakeBlocks
  bool exact = false;         // whether the KV is bit for bit what this worker would compute
};
// FAILED_PRECONDITION if the other side's KV does not fit this worker's cache, a layer keeps
// something else there, its wire type is
// not taken, or it has another number of tokens, other tokens, another salt or other numerics.
absl::StatusOr<PushTerms> CheckOpen(const ReceiveConfig& config,
                                    const internal::v1::PushOpen& open);
// INVALID_ARGUMENT if the header is not about whole pages of this sequence that each of its
// layers carries, or its sizes do not agree. `wire`: the wire format of the push.
absl::Status CheckHeader(const ReceiveConfig& config, const KvWireFormat& wire,
                         const CarriedTokens& carried, const internal::v1::KvDataHeader& header,
                         size_t payload_bytes);
// INVALID_ARGUMENT where the checkpoint is not at a page's or the sequence's end after the last
// one, at `checkpointed_tokens`.
absl::Status CheckCheckpoint(const ReceiveConfig& config, int checkpointed_tokens,
                             const internal::v1::PushCheckpoint& checkpoint);
// INVALID_ARGUMENT if the first tokens are not one for each choice, next in its output, and
// one of them goes on.
absl::Status CheckFirstTokens(const ReceiveConfig& config, const internal::v1::PushCommit& commit);

}  // namespace baton
