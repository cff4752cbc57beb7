// May these two work on one model? Identity must be equal, shape may differ within bounds.
#pragma once

#include "absl/status/status.h"

#include "baton/internal/v1/common.pb.h"

namespace baton {

// FAILED_PRECONDITION, reason MODEL_MISMATCH, names the first field that differs and spells both
// out.
absl::Status CheckSameIdentity(const internal::v1::ModelIdentity& ours,
                               const internal::v1::ModelIdentity& theirs);

// INVALID_ARGUMENT where `shape` cannot be true: zero or huge counts, a block size that is no
// multiple of 16, an unknown dtype.
absl::Status ValidateShape(const internal::v1::KvShape& shape);

}  // namespace baton
