// The most choices that a request may ask for (n).
#pragma once

#include <cstdint>

namespace baton {

inline constexpr uint32_t kMaxChoices = 16;

}  // namespace baton
