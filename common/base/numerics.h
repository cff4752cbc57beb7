// The names of numerics: what the bits of results depend on beside their inputs. Equal names mean
// equal bits, unless they end in kVaryingNumerics.
#pragma once

#include <string>

namespace baton {

// A row's bits depend on what else is computed with it: CUDA without --deterministic.
inline constexpr char kVaryingNumerics[] = "-varying";

// Whether the same is computed each time under `numerics`, a name or a text that contains it.
inline bool PromisesBits(const std::string& numerics) {
  return numerics.find(kVaryingNumerics) == std::string::npos;
}

}  // namespace baton
