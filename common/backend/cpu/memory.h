// Zeroed, page-aligned memory of the process.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"

#include "common/backend/backend.h"

namespace baton {

// Pages are taken from the system when first touched, huge ones where it has them.
// RESOURCE_EXHAUSTED names the size.
absl::StatusOr<BackendBuffer> AllocateCpuMemory(size_t bytes);

}  // namespace baton
