// Counters of the bytes that a test binary allocates. Linking allocation_counter.cc replaces
// operator new in the whole binary. Thread-safe.
#pragma once

#include <cstddef>

namespace baton {

// The bytes that operator new of this process was asked for so far.
size_t AllocatedBytes();
// The bytes that are allocated now, and the most since the last ResetPeakBytes().
size_t LiveBytes();
size_t PeakBytes();
void ResetPeakBytes();

}  // namespace baton
