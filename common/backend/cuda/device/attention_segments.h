// How many segments attention cuts keys into (kAttentionSegment), for its plans and for recordings.
#pragma once

#include "common/backend/tensor.h"

namespace baton {

inline int AttentionSegments(int keys) {
  return (keys + kAttentionSegment - 1) / kAttentionSegment;
}

}  // namespace baton
