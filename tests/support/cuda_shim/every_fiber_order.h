// A fixture for tests that launch kernels.
#pragma once

#include <gtest/gtest.h>

#include <ostream>

#include "common/backend/cuda/device/launch.h"
#include "test_device.h"

namespace baton {

namespace cuda_shim {
inline void PrintTo(FiberOrder order, std::ostream* out) { *out << FiberOrderName(order); }
}  // namespace cuda_shim

// Runs each test once in every fiber order.
class EveryFiberOrder : public testing::TestWithParam<cuda_shim::FiberOrder> {
 protected:
  EveryFiberOrder() { cuda_shim::SetFiberOrder(GetParam()); }
  ~EveryFiberOrder() override { cuda_shim::SetFiberOrder(cuda_shim::FiberOrder::kForward); }
};

}  // namespace baton
