#include <cstdint>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/base/crc32c.h"

namespace baton {
namespace {

using Extend = uint32_t (*)(uint32_t, const void*, size_t);

std::vector<Extend> EveryWay() {
  std::vector<Extend> ways = {&ExtendCrc32c, &ExtendCrc32cPortable};
  if (HasCrc32cSse42()) ways.push_back(&ExtendCrc32cSse42);
  if (HasCrc32cAvx512()) ways.push_back(&ExtendCrc32cAvx512);
  return ways;
}

TEST(Crc32cKernels, GivesTheVectorsOfRfc3720) {
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

std::vector<uint8_t> BytesFromASeed(size_t size) {
  std::mt19937 random(7);
  std::vector<uint8_t> bytes(size);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
  return bytes;
}

// Sizes around every change of step: 8, 64, 256, 3 * 128 and 3 * 1024 bytes.
TEST(Crc32cKernels, IsTheSameEveryWayForEveryLengthAndSplit) {
  const std::vector<uint8_t> bytes = BytesFromASeed(4200);
  const uint32_t before = 0x1234567u;
  uint32_t whole = before;
  std::mt19937 random(8);
  for (size_t size = 0; size < bytes.size(); ++size) {
    const size_t split = random() % (size + 1);
    for (const Extend extend : EveryWay()) {
      const uint32_t first = extend(before, bytes.data(), split);
      ASSERT_EQ(extend(first, bytes.data() + split, size - split), whole) << size << " " << split;
      ASSERT_EQ(extend(before, bytes.data(), size), whole) << size;
    }
    whole = ExtendCrc32cPortable(whole, bytes.data() + size, 1);
  }
}

TEST(Crc32cKernels, IsTheSameEveryWayForEveryAlignmentAndLongPieces) {
  const std::vector<uint8_t> bytes = BytesFromASeed(size_t{1} << 17);
  for (size_t start = 0; start < 65; ++start) {
    for (const size_t size : {size_t{255}, size_t{700}, size_t{6144}, size_t{12288} + start,
                              size_t{65536} - start, bytes.size() - start}) {
      if (start + size > bytes.size()) continue;
      const uint32_t whole = ExtendCrc32cPortable(~0u, bytes.data() + start, size);
      for (const Extend extend : EveryWay()) {
        ASSERT_EQ(extend(~0u, bytes.data() + start, size), whole) << start << " " << size;
      }
    }
  }
}

}  // namespace
}  // namespace baton
