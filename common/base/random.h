// Random bits from the operating system: request ids, capabilities, incarnations, default seeds.
// Never results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace baton {

std::string RandomBytes(size_t count);
uint64_t RandomUint64();

}  // namespace baton
