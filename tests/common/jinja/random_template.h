// Chat templates from a seed: valid programs that try to cost much.
#pragma once

#include <cstdint>
#include <string>

namespace baton {

// The same template for the same seed, at most 16 KiB. It reads messages[0].content.
std::string RandomTemplate(uint64_t seed);

}  // namespace baton
