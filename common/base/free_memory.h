// Tells how much memory this process may still take.
#pragma once

#include <cstdint>

namespace baton {

// The bytes that the machine has available, or that the process's control group leaves if that is
// less. 0: unknown.
uint64_t FreeMemoryBytes();

}  // namespace baton
