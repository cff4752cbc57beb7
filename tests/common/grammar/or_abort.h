// What a test cannot go on without.
#pragma once

#include <cstdlib>
#include <iostream>
#include <utility>

#include "absl/status/statusor.h"

namespace baton {

template <typename T>
T OrAbort(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::cerr << value.status() << "\n";
    std::abort();
  }
  return *std::move(value);
}

}  // namespace baton
