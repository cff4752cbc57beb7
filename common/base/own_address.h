// The addresses of this machine.
#pragma once

#include "common/base/numeric_address.h"

namespace baton {

// Whether the address is one of this machine's own (of its network namespace): a socket can be
// bound to it. Thread-safe; does not block.
bool IsOwnAddress(const NumericAddress& address);

}  // namespace baton
