// The functions of a feed-forward's gate, in double precision and as backend.h says them.
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>

#include "common/backend/gate_function.h"

namespace baton {

inline constexpr GateFunction kGateFunctions[] = {GateFunction::kSilu, GateFunction::kGeluTanh,
                                                  GateFunction::kClampedSilu};

inline double GatedInDouble(GateFunction function, double gate, double up) {
  if (function == GateFunction::kGeluTanh) {
    const double y = std::sqrt(2 / std::numbers::pi) * (gate + 0.044715 * gate * gate * gate);
    return gate / 2 * (1 + std::tanh(y)) * up;
  }
  if (function == GateFunction::kClampedSilu) {
    const double g = std::min(gate, 7.0);
    return (std::clamp(up, -7.0, 7.0) + 1) * g / (1 + std::exp(-1.702 * g));
  }
  return gate / (1 + std::exp(-gate)) * up;
}

}  // namespace baton
