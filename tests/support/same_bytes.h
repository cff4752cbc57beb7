// Equality of arrays bit for bit: 0 is not -0, and a NaN equals itself.
#pragma once

#include <cstddef>
#include <cstring>
#include <vector>

namespace baton {

template <class T>
bool SameBytes(const T* a, const T* b, size_t count) {
  return std::memcmp(static_cast<const void*>(a), static_cast<const void*>(b), count * sizeof(T)) ==
         0;
}

inline bool SameBits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && SameBytes(a.data(), b.data(), a.size());
}

}  // namespace baton
