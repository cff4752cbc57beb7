#include "tests/support/late_backend.h"

#include <utility>

#include "common/base/status_macros.h"

namespace baton {

LateBackend::LateBackend(std::unique_ptr<Backend> inner, Memory memory, uint64_t seed)
    : inner_(std::move(inner)),
      distance_(memory == Memory::kFar ? LateCopies::kFar : 0),
      copies_(seed, distance_) {}

absl::StatusOr<BackendBuffer> LateBackend::Allocate(size_t bytes) {
  BATON_ASSIGN_OR_RETURN(BackendBuffer buffer, inner_->Allocate(bytes));
  uint8_t* const device = buffer.data() + distance_;
  auto held = std::make_shared<BackendBuffer>(std::move(buffer));
  return BackendBuffer(device, bytes, [held](uint8_t*) {});
}

}  // namespace baton
