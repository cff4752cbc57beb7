// Stands in for common/base/random.h: the random bits follow from the seed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace baton {
inline namespace simulated {

std::string RandomBytes(size_t count);
uint64_t RandomUint64();

}  // namespace simulated
}  // namespace baton
