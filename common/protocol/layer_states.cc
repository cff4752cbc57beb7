#include "common/protocol/layer_states.h"

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

using internal::v1::KvShape;
using internal::v1::LayerState;
using internal::v1::LayerStateKind;

constexpr uint32_t kMaxStateWindow = uint32_t{1} << 27;  // no context is longer

std::string StateText(const LayerState& state) {
  return absl::StrCat(LayerStateKindText(state.kind()), " with window ", state.window());
}

// A list that is too short has no state for the layers behind its end.
LayerState StateOf(const KvShape& shape, int layer) {
  LayerState state;
  if (shape.layer_states().empty()) {
    state.set_kind(internal::v1::LAYER_STATE_KIND_ROWS);
  } else if (layer < shape.layer_states_size()) {
    state = shape.layer_states(layer);
  }
  return state;
}

std::optional<std::string> FaultOf(const LayerState& state) {
  const std::string kind = LayerStateKindText(state.kind());
  switch (state.kind()) {
    case internal::v1::LAYER_STATE_KIND_ROWS:
      if (state.window() == 0) return std::nullopt;
      return absl::StrCat(kind, " has no window, but it is ", state.window());
    case internal::v1::LAYER_STATE_KIND_LAST_ROWS:
      if (state.window() > 0 && state.window() <= kMaxStateWindow) return std::nullopt;
      return absl::StrCat(kind, " has a window from 1 to ", kMaxStateWindow, ", but it is ",
                          state.window());
    default:
      return absl::StrCat(kind, " is not carried by this version; the kinds that are: ",
                          LayerStateKindText(internal::v1::LAYER_STATE_KIND_ROWS), ", ",
                          LayerStateKindText(internal::v1::LAYER_STATE_KIND_LAST_ROWS));
  }
}

}  // namespace

std::string LayerStateKindText(LayerStateKind kind) {
  if (!internal::v1::LayerStateKind_IsValid(kind)) return absl::StrCat("unknown kind ", kind);
  return internal::v1::LayerStateKind_Name(kind);
}

std::optional<std::string> LayerStatesFault(const KvShape& shape) {
  const int states = shape.layer_states_size();
  if (states == 0) return std::nullopt;
  if (static_cast<uint32_t>(states) != shape.layers()) {
    return absl::StrCat("must be empty or one for each of the ", shape.layers(), " layers, has ",
                        states);
  }
  for (int layer = 0; layer < states; ++layer) {
    if (const auto fault = FaultOf(shape.layer_states(layer))) {
      return absl::StrCat("layer ", layer, ": ", *fault);
    }
  }
  return std::nullopt;
}

absl::Status CheckSameLayerStates(const KvShape& ours, const KvShape& theirs) {
  if (const auto fault = LayerStatesFault(theirs)) {
    return absl::FailedPreconditionError(absl::StrCat("shape.layer_states: ", *fault));
  }
  const int layers = static_cast<int>(ours.layers());
  for (int layer = 0; layer < layers; ++layer) {
    const LayerState here = StateOf(ours, layer);
    const LayerState there = StateOf(theirs, layer);
    // tests/planted_bugs: layer_states_not_compared
    if (here.kind() == there.kind() && here.window() == there.window()) continue;
    return absl::FailedPreconditionError(absl::StrCat("shape.layer_states: layer ", layer, " is ",
                                                      StateText(there), ", this worker's is ",
                                                      StateText(here)));
  }
  return absl::OkStatus();
}

}  // namespace baton
