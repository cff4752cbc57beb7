// A counter of the bytes that a test binary allocates. Linking allocation_counter.cc replaces
// operator new in the whole binary.
#pragma once

#include <cstddef>

namespace baton {

// The bytes that operator new of this process was asked for so far. Thread-safe.
size_t AllocatedBytes();

}  // namespace baton
