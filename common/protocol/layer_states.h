// Checks the state that each layer keeps of a sequence (LayerState) in a KV shape.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"

#include "baton/internal/v1/common.pb.h"

namespace baton {

// The kind's name, or "unknown kind N".
std::string LayerStateKindText(internal::v1::LayerStateKind kind);

// Why `shape.layer_states` cannot be true, or cannot be carried by this version: it names the layer
// and its kind. None if it is good. REQUIRES: shape.layers is in its range (ValidateShape).
std::optional<std::string> LayerStatesFault(const internal::v1::KvShape& shape);

// FAILED_PRECONDITION if a layer of the two shapes keeps something else, or another number of
// rows: it names the first such layer, and what both have. `theirs` comes from outside.
absl::Status CheckSameLayerStates(const internal::v1::KvShape& ours,
                                  const internal::v1::KvShape& theirs);

}  // namespace baton
