#include "common/base/crc32c.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(Crc32c, IsTheCrcOfWhatCameBeforeFollowedByTheRest) {
  const std::string bytes = "123456789";
  EXPECT_EQ(Crc32c(bytes.data(), bytes.size()), 0xE3069283u);
  for (size_t split = 0; split <= bytes.size(); ++split) {
    const uint32_t first = Crc32c(bytes.data(), split);
    EXPECT_EQ(ExtendCrc32c(first, bytes.data() + split, bytes.size() - split), 0xE3069283u)
        << split;
  }
}

TEST(Crc32c, ChangesWithEveryBit) {
  std::string bytes(64, 'x');
  const uint32_t before = Crc32c(bytes.data(), bytes.size());
  for (size_t bit = 0; bit < bytes.size() * 8; ++bit) {
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
    EXPECT_NE(Crc32c(bytes.data(), bytes.size()), before) << bit;
    bytes[bit / 8] = static_cast<char>(bytes[bit / 8] ^ (1 << (bit % 8)));
  }
}

}  // namespace
}  // namespace baton
