// Memory that grows to what was wanted at most, and is used again.
#pragma once

#include <cstddef>
#include <vector>

namespace baton {

// Lets `values` have at least `size` elements, and takes memory for no more. If it has to grow,
// what it held is lost: with what it keeps, a vector that is resized step by step may take twice as
// much.
template <class T>
void GrowTo(size_t size, std::vector<T>& values) {
  if (values.size() >= size) return;
  values.clear();
  values.shrink_to_fit();
  values.resize(size);
}

}  // namespace baton
