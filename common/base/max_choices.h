// How many choices a request may have (n).
#pragma once

#include <cstdint>

namespace baton {

inline constexpr uint32_t kMaxChoices = 16;

}  // namespace baton
