#include "common/base/numerics.h"

#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

std::string Varying() { return std::string("cuda") + kVaryingNumerics; }

TEST(Numerics, ACacheIsNamedByItsBackendAndType) {
  EXPECT_EQ(Numerics::OfCache("cpu", KvType::kF16).name(), "cpu/f16");
  EXPECT_EQ(Numerics::OfCache("cpu", KvType::kF16), Numerics("cpu/f16"));
  EXPECT_FALSE(Numerics::OfCache("cpu", KvType::kF16) == Numerics::OfCache("cpu", KvType::kBf16));
}

TEST(Numerics, BitsAreEqualUnlessSomeBackendVaries) {
  const Numerics exact = Numerics::OfCache("cpu-4", KvType::kF16);
  const Numerics varying = Numerics::OfCache(Varying(), KvType::kF16);
  EXPECT_TRUE(exact.bits_are_equal());
  EXPECT_FALSE(varying.bits_are_equal());
  EXPECT_FALSE(Numerics(Varying()).bits_are_equal());
  EXPECT_TRUE(Numerics::Converted(exact, KvType::kInt8, exact).bits_are_equal());
  EXPECT_FALSE(Numerics::Converted(varying, KvType::kInt8, exact).bits_are_equal());
  EXPECT_FALSE(Numerics::Converted(exact, KvType::kInt8, varying).bits_are_equal());
}

TEST(Numerics, ANameThatOnlyContainsTheWordDoesNotVary) {
  EXPECT_TRUE(Numerics("cpu-varying-lanes/f16").bits_are_equal());
}

}  // namespace
}  // namespace baton
