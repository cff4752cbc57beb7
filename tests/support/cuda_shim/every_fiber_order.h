// A fixture for tests that launch kernels.
#pragma once

#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "common/backend/cuda/launch.h"
#include "tests/support/cuda_shim/fibers.h"

namespace baton {

namespace cuda_shim {
inline void PrintTo(FiberOrder order, std::ostream* out) {
  *out << (order == FiberOrder::kForward   ? "forward"
           : order == FiberOrder::kReverse ? "reverse"
                                           : "seeded");
}
}  // namespace cuda_shim

// Each test runs in every order.
class EveryFiberOrder : public testing::TestWithParam<cuda_shim::FiberOrder> {
 protected:
  EveryFiberOrder() { cuda_shim::SetFiberOrder(GetParam()); }
  ~EveryFiberOrder() override { cuda_shim::SetFiberOrder(cuda_shim::FiberOrder::kForward); }
};

}  // namespace baton
