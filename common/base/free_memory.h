// How much memory this process may still take.
#pragma once

#include <cstdint>

namespace baton {

// What the machine has available, or what its control group leaves if that is less. 0: unknown.
uint64_t FreeMemoryBytes();

}  // namespace baton
