#include "common/base/crc32c.h"

#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace baton {
namespace {

using Extend = uint32_t (*)(uint32_t, const void*, size_t);

std::vector<Extend> EveryWay() {
  std::vector<Extend> ways = {&ExtendCrc32c, &ExtendCrc32cPortable};
  if (__builtin_cpu_supports("sse4.2")) ways.push_back(&ExtendCrc32cSse42);
  return ways;
}

TEST(Crc32c, GivesTheVectorsOfRfc3720) {
  std::string ascending(32, '\0');
  std::iota(ascending.begin(), ascending.end(), '\0');
  const std::string descending(ascending.rbegin(), ascending.rend());
  for (const Extend extend : EveryWay()) {
    const auto crc = [&](const std::string& bytes) {
      return extend(0, bytes.data(), bytes.size());
    };
    EXPECT_EQ(crc("123456789"), 0xE3069283u);
    EXPECT_EQ(crc(std::string(32, '\0')), 0x8A9136AAu);
    EXPECT_EQ(crc(std::string(32, '\xff')), 0x62A8AB43u);
    EXPECT_EQ(crc(ascending), 0x46DD794Eu);
    EXPECT_EQ(crc(descending), 0x113FDB5Cu);
    EXPECT_EQ(crc(""), 0u);
  }
}

TEST(Crc32c, IsTheSameEveryWayForEveryLengthAlignmentAndSplit) {
  std::mt19937 random(7);
  std::vector<uint8_t> bytes(600);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  for (size_t start = 0; start < 9; ++start) {
    for (size_t size = 0; size < 300; ++size) {
      const uint32_t whole = ExtendCrc32cPortable(0, bytes.data() + start, size);
      const size_t split = random() % (size + 1);
      for (const Extend extend : EveryWay()) {
        const uint32_t first = extend(0, bytes.data() + start, split);
        ASSERT_EQ(extend(first, bytes.data() + start + split, size - split), whole);
        ASSERT_EQ(extend(0, bytes.data() + start, size), whole);
      }
    }
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
