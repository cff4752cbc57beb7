#include "common/handoff/carried_tokens.h"

#include "common/base/check.h"

namespace baton {
namespace {

std::vector<int> LayerBegins(const KvLayout& layout, int tokens) {
  std::vector<int> begins;
  for (int layer = 0; layer < layout.layers; ++layer) {
    // tests/planted_bugs: window_begins_a_page_late
    begins.push_back(FirstHandedOff(layout, layer, tokens));
  }
  return begins;
}

}  // namespace

CarriedTokens::CarriedTokens(const KvLayout& layout, int tokens)
    : tokens_(tokens), layer_begins_(LayerBegins(layout, tokens)) {
  BATON_CHECK(tokens > 0, "a sequence has tokens");
}

size_t CarriedTokens::carried() const {
  size_t sum = 0;
  for (const int begin : layer_begins_) {
    sum += static_cast<size_t>(tokens_ - std::max(start_token_, begin));
  }
  return sum;
}

size_t CarriedTokens::held() const {
  size_t sum = 0;
  for (const int begin : layer_begins_)
    sum += static_cast<size_t>(std::max(0, start_token_ - begin));
  return sum;
}

void SetLayerStates(const KvLayout& layout, internal::v1::KvShape& shape) {
  shape.clear_layer_states();
  if (!layout.groups.any_window()) return;
  for (int layer = 0; layer < layout.layers; ++layer) {
    const int window = layout.groups.window(layout.groups.GroupOf(layer));
    internal::v1::LayerState& state = *shape.add_layer_states();
    state.set_kind(window == 0 ? internal::v1::LAYER_STATE_KIND_ROWS
                               : internal::v1::LAYER_STATE_KIND_LAST_ROWS);
    state.set_window(static_cast<uint32_t>(window));
  }
}

}  // namespace baton
