#include "common/gguf/quantise.h"

#include <cstring>
#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

constexpr size_t kWeightsBytes = 32 * sizeof(float);
constexpr size_t kQ8Bytes = 34;
constexpr size_t kQ4Bytes = 18;
constexpr size_t kEntryBytes = kWeightsBytes + kQ8Bytes + kQ4Bytes;

// scripts/make_quantise_goldens.py says what blocks they are.
TEST(Quantise, MakesTheBytesOfTheReferenceOfEveryBlock) {
  std::ifstream file(BATON_TEST_DATA "/quantise/goldens.bin", std::ios::binary);
  const std::string goldens((std::istreambuf_iterator<char>(file)), {});
  ASSERT_EQ(goldens.size() % kEntryBytes, 0u);
  ASSERT_EQ(goldens.size() / kEntryBytes, 140u);
  for (size_t entry = 0; entry < goldens.size() / kEntryBytes; ++entry) {
    const char* golden = goldens.data() + entry * kEntryBytes;
    float weights[32];
    std::memcpy(weights, golden, sizeof(weights));
    uint8_t q8[kQ8Bytes];
    QuantiseQ8_0(weights, q8);
    EXPECT_EQ(std::memcmp(q8, golden + kWeightsBytes, kQ8Bytes), 0) << "Q8_0 of block " << entry;
    uint8_t q4[kQ4Bytes];
    QuantiseQ4_0(weights, q4);
    EXPECT_EQ(std::memcmp(q4, golden + kWeightsBytes + kQ8Bytes, kQ4Bytes), 0)
        << "Q4_0 of block " << entry;
  }
}

}  // namespace
}  // namespace baton
