// Random bits from the operating system, for request ids, capabilities, incarnations and default
// seeds. No result may depend on them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace baton {

std::string RandomBytes(size_t count);
uint64_t RandomUint64();

}  // namespace baton
