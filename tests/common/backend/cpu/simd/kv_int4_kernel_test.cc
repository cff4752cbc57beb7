#include "common/backend/cpu/simd/kv_int4_kernel.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "gtest/gtest.h"

#include "common/backend/cpu/simd/simd_portable.h"
#include "tests/support/stored_head.h"

namespace baton {
namespace {

using Kernel = KvInt4Kernel<Portable>;

struct Stored {
  std::vector<uint8_t> codes;
  std::vector<uint8_t> scales;
  bool sayable = false;
  std::vector<float> values;
};

Stored Store(const std::vector<float>& head) {
  const int head_dim = static_cast<int>(head.size());
  Stored stored{std::vector<uint8_t>(head.size() / 2), std::vector<uint8_t>(head.size() / 16),
                false, std::vector<float>(head.size())};
  stored.sayable =
      Kernel::StoreHead(head_dim, head.data(), stored.codes.data(), stored.scales.data());
  Kernel::LoadHead(head_dim, stored.codes.data(), stored.scales.data(), stored.values.data());
  return stored;
}

std::vector<float> RandomHead(int head_dim, uint32_t seed) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> head(static_cast<size_t>(head_dim));
  for (float& x : head) x = normal(random);
  return head;
}

double Product(const std::vector<float>& a, const std::vector<float>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += double{a[i]} * b[i];
  return sum;
}

// The squared error of a head's way through the codes, of its squared length.
double RelativeError(const std::vector<float>& head) {
  const std::vector<float> values = Store(head).values;
  std::vector<float> difference;
  for (size_t i = 0; i < head.size(); ++i) difference.push_back(values[i] - head[i]);
  return Product(difference, difference) / Product(head, head);
}

TEST(KvInt4, RotationKeepsProductsAndUndoesItself) {
  for (const int head_dim : {32, 64, 96, 128, 160, 512}) {
    const std::vector<float> a = RandomHead(head_dim, 1);
    const std::vector<float> b = RandomHead(head_dim, 2);
    std::vector<float> rotated_a = a;
    std::vector<float> rotated_b = b;
    Kernel::RotateHead(head_dim, rotated_a.data());
    Kernel::RotateHead(head_dim, rotated_b.data());
    EXPECT_EQ(rotated_a, RotatedHead(a.data(), head_dim));
    EXPECT_NEAR(Product(rotated_a, rotated_b), Product(a, b), 1e-5 * head_dim);
    Kernel::RotateHead(head_dim, rotated_a.data());
    for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(rotated_a[i], a[i], 1e-6);
  }
}

TEST(KvInt4, EveryByteIsTwoCodes) {
  for (int low = -8; low < 8; ++low) {
    for (int high = -8; high < 8; ++high) {
      const KvInt4 byte = KvInt4::Of(low, high);
      EXPECT_EQ(byte.Low(), static_cast<float>(low));
      EXPECT_EQ(byte.High(), static_cast<float>(high));
    }
  }
}

// Without the rotation an element that stands out would cost the others of its group all their
// bits: an error of all that is left of the head.
TEST(KvInt4, ErrsByLessThanAHundredthAlsoWhereElementsStandOut) {
  double usual = 0;
  double outlying = 0;
  for (uint32_t seed = 0; seed < 100; ++seed) {
    std::vector<float> head = RandomHead(64, seed);
    usual += RelativeError(head) / 100;
    head[seed % 64] *= 30;
    outlying += RelativeError(head) / 100;
  }
  EXPECT_LT(usual, 0.0075);
  EXPECT_LT(outlying, 0.01);
}

TEST(KvInt4, AZeroHeadIsZeroBytes) {
  for (const float size : {0.0f, -0.0f, std::numeric_limits<float>::denorm_min(), 1e-12f}) {
    std::vector<float> head(64, size);
    for (size_t i = 0; i < head.size(); i += 3) head[i] = -size;
    const Stored stored = Store(head);
    EXPECT_TRUE(stored.sayable);
    EXPECT_EQ(stored.codes, std::vector<uint8_t>(32)) << size;
    for (const float value : stored.values) EXPECT_EQ(value, 0) << size;
  }
}

TEST(KvInt4, KeepsWhatIsFiniteFinite) {
  const float most = std::numeric_limits<float>::max();
  for (const float size : {65504.0f, 1e7f, 0x1p100f, 0x1p127f, most}) {
    std::vector<float> head(64, size);
    for (size_t i = 0; i < head.size(); i += 3) head[i] = -size / 2;
    const Stored stored = Store(head);
    EXPECT_EQ(stored.sayable, size == 65504.0f) << size;
    for (const float value : stored.values) EXPECT_TRUE(std::isfinite(value)) << size;
  }
}

TEST(KvInt4, AHeadWithAnInfinityOrANanIsNoNumbersAnywhere) {
  for (const float bad : {INFINITY, -INFINITY, NAN, -NAN}) {
    for (size_t at = 0; at < 64; ++at) {
      std::vector<float> head(64, 0.5f);
      head[at] = bad;
      const Stored stored = Store(head);
      EXPECT_FALSE(stored.sayable);
      // The bytes are equal wherever they are made.
      EXPECT_EQ(stored.codes, std::vector<uint8_t>(32));
      EXPECT_EQ(stored.scales, (std::vector<uint8_t>{0x00, 0x7e, 0x00, 0x7e}));
      for (const float value : stored.values) EXPECT_TRUE(std::isnan(value));
    }
  }
}

}  // namespace
}  // namespace baton
