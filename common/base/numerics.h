// Numerics are what the bits of results depend on besides their inputs: backend, mode, KV type and
// so on. Each has a name. Equal names mean equal bits, unless they end in kVaryingNumerics.
#pragma once

#include <string>

namespace baton {

// The end of the name where a row's bits depend on the other rows of its batch: CUDA without
// --deterministic.
inline constexpr char kVaryingNumerics[] = "-varying";

// Whether equal inputs give equal bits each time. `numerics` is a name, or a text that contains it.
inline bool PromisesBits(const std::string& numerics) {
  return numerics.find(kVaryingNumerics) == std::string::npos;
}

}  // namespace baton
