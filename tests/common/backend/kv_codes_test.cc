#include "common/backend/kv_codes.h"

#include <cmath>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "tests/support/stored_head.h"

namespace baton {
namespace {

template <class Code>
constexpr KvType kDtype = Code::kLargest == 127 ? KvType::kInt8 : KvType::kFp8;

// The elements of a head after the way through codes, and the head's scale.
template <class Code>
StoredHead Store(const std::vector<float>& x) {
  StoredHead head;
  int32_t most = 0;
  for (const float element : x) most = std::max(most, MagnitudeBits(element));
  head.scale = KvScale<Code>(most);
  const float divisor = KvDivisor(head.scale);
  for (const float element : x) {
    const Code code = KvCode<Code>(element, divisor);
    head.codes.push_back(code.bits);
    head.values.push_back(code.Value() * head.scale);
  }
  return head;
}

template <class Code>
class KvCodes : public testing::Test {};
using AllCodes = testing::Types<KvInt8, KvFp8>;
TYPED_TEST_SUITE(KvCodes, AllCodes);

TYPED_TEST(KvCodes, AreTheNearestToElementsOfEverySize) {
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  for (int exponent = -125; exponent < 126; ++exponent) {
    std::vector<float> x(64);
    for (float& element : x) element = std::ldexp(normal(random) / 4, exponent);
    const StoredHead head = Store<TypeParam>(x);
    const StoredHead expected = StoreHead(kDtype<TypeParam>, x.data(), 64);
    ASSERT_EQ(head.scale, expected.scale) << exponent;
    ASSERT_EQ(head.codes, expected.codes) << exponent;
    ASSERT_EQ(head.values, expected.values) << exponent;
  }
}

// The error bound, half a step: equal for all int8 codes; for fp8 2^-4 of the element, or half the
// least step.
TYPED_TEST(KvCodes, StandForElementsThatAreHalfAStepAwayAtMost) {
  std::mt19937 random(2);
  std::normal_distribution<float> normal;
  for (int trial = 0; trial < 200; ++trial) {
    std::vector<float> x(80);
    for (float& element : x) element = normal(random) * std::exp(normal(random));
    const StoredHead head = Store<TypeParam>(x);
    for (size_t i = 0; i < x.size(); ++i) {
      const double step = kDtype<TypeParam> == KvType::kInt8
                              ? double{head.scale}
                              : std::max(std::abs(x[i]) / 8.0, 0x1p-9 * head.scale);
      ASSERT_LE(std::abs(double{x[i]} - head.values[i]), step / 2 * 1.00001) << x[i];
    }
  }
}

TYPED_TEST(KvCodes, MakeAZeroHeadZeroWithTheScaleZero) {
  const float least = TypeParam::kLargest * std::numeric_limits<float>::min();
  for (const float size :
       {0.0f, std::numeric_limits<float>::denorm_min(), 1e-40f, std::nextafter(least, 0.0f)}) {
    const StoredHead head = Store<TypeParam>({size, -size, 0, size / 2});
    EXPECT_EQ(head.scale, 0) << size;
    for (size_t i = 0; i < 4; ++i) {
      EXPECT_EQ(head.values[i], 0) << size;
      EXPECT_EQ(head.codes[i] & 0x7f, 0) << size;
    }
  }
  EXPECT_EQ(Store<TypeParam>({least, -least}).scale, std::numeric_limits<float>::min());
}

TYPED_TEST(KvCodes, KeepWhatIsFiniteFinite) {
  const float most = std::numeric_limits<float>::max();
  for (const float size : {0x1p126f, 0x1.fffffep126f, 0x1p127f, 0x1.8p127f, most}) {
    const StoredHead head = Store<TypeParam>({size, -size, size / 3, 1, 0});
    for (const float value : head.values) EXPECT_TRUE(std::isfinite(value)) << size;
    EXPECT_NEAR(head.values[0], std::min(size, 0x1p127f), 0x1p127f * 1e-6) << size;
    EXPECT_EQ(head.values[1], -head.values[0]);
  }
}

TYPED_TEST(KvCodes, MakeAHeadWithAnInfinityOrANanNoNumbers) {
  for (const float bad : {INFINITY, -INFINITY, NAN, -NAN}) {
    const StoredHead head = Store<TypeParam>({1, bad, -2, 0});
    for (const float value : head.values) EXPECT_TRUE(std::isnan(value));
    // The bytes are equal wherever they are made.
    EXPECT_EQ(std::bit_cast<uint32_t>(head.scale), 0x7fc00000u);
    for (const uint8_t code : head.codes) EXPECT_EQ(code, head.codes[0]);
  }
}

TEST(KvInt8, EveryCodeIsItsInteger) {
  for (int code = 0; code < 256; ++code) {
    EXPECT_EQ((KvInt8{static_cast<uint8_t>(code)}).Value(),
              static_cast<float>(static_cast<int8_t>(code)));
  }
}

}  // namespace
}  // namespace baton
