// The number of segments into which attention cuts keys (kAttentionSegment), for plans and
// recordings.
#pragma once

#include "common/backend/tensor.h"

namespace baton {

inline int AttentionSegments(int keys) {
  return (keys + kAttentionSegment - 1) / kAttentionSegment;
}

}  // namespace baton
