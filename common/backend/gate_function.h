// Combines the gate and the up of a feed-forward; apart from backend.h for kernels.
#pragma once

namespace baton {

// What is computed of a feed-forward's gate g and up u, element by element.
enum class GateFunction {
  kSilu,         // g / (1 + exp(-g)) * u
  kGeluTanh,     // g / 2 * (1 + tanh(sqrt(2 / pi) * (g + 0.044715 g^3))) * u
  kClampedSilu,  // (u' + 1) * g' / (1 + exp(-1.702 g')), g' = min(g, 7), u' = clamp(u, -7, 7)
};

}  // namespace baton
