#include "common/base/random.h"

#include <set>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(RandomBytes, GivesAsManyAsAskedAndNeverTheSame) {
  for (const size_t count : {0u, 1u, 16u, 255u, 257u, 5000u}) {
    EXPECT_EQ(RandomBytes(count).size(), count);
  }
  std::set<std::string> seen;
  std::set<uint64_t> numbers;
  for (int i = 0; i < 1000; ++i) {
    seen.insert(RandomBytes(16));
    numbers.insert(RandomUint64());
  }
  EXPECT_EQ(seen.size(), 1000u);
  EXPECT_EQ(numbers.size(), 1000u);
}

}  // namespace
}  // namespace baton
