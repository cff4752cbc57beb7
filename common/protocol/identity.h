// Checks whether two processes may work on one request: their model identities must be equal, their
// KV shapes may differ within bounds.
#pragma once

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "baton/internal/v1/common.pb.h"
#include "baton/internal/v1/worker.pb.h"

namespace baton {

// "prefill", "decode" or "unknown".
const char* WorkerRoleName(internal::v1::WorkerRole role);

// FAILED_PRECONDITION with reason MODEL_MISMATCH if the identities differ. It names the first field
// that differs and spells out both identities.
absl::Status CheckSameIdentity(const internal::v1::ModelIdentity& ours,
                               const internal::v1::ModelIdentity& theirs);

// INVALID_ARGUMENT if `shape` cannot be true: zero or huge counts, a block size that is not a
// multiple of 16, an unknown dtype, a layer's state that this version does not carry. It names its
// fields PATH.FIELD, such as "decode_shape.block_size".
absl::Status ValidateShape(const internal::v1::KvShape& shape, absl::string_view path);

}  // namespace baton
