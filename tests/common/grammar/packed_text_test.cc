#include "common/grammar/packed_text.h"

#include <random>

#include "gtest/gtest.h"

namespace baton {
namespace {

std::string Numbers() {
  std::string text = "[";
  for (int i = 0; i < 20'000; ++i) text += std::to_string(i) + ",";
  return text + "0]";
}

TEST(PackedTexts, ComeBackAsTheyWereAndAreSmaller) {
  for (const std::string& text :
       {std::string(), std::string("a"), std::string(1, '\0'), Numbers()}) {
    const auto again = UnpackText(PackText(text), text.size());
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(*again, text);
  }
  EXPECT_LT(PackText(Numbers()).size(), Numbers().size() / 2);
  EXPECT_EQ(PackText(Numbers()), PackText(Numbers()));
}

TEST(PackedTexts, MoreThanTheLimitIsRefusedByTheSizeThatIsTold) {
  const std::string packed = PackText(std::string(1000, 'x'));
  EXPECT_TRUE(UnpackText(packed, 1000).ok());
  EXPECT_EQ(UnpackText(packed, 999).status().code(), absl::StatusCode::kResourceExhausted);
}

TEST(PackedTexts, ATextThatIsLongerOrShorterThanItTellsIsDamaged) {
  for (const char told : {'\x06', '\x04', '\0'}) {
    std::string packed = PackText("12345");
    packed[0] = told;
    EXPECT_EQ(UnpackText(packed, 1000).status().code(), absl::StatusCode::kDataLoss);
  }
}

TEST(PackedTexts, CutOffAndLongerBytesAreAnErrorAndDamagedOnesDoNoHarm) {
  const std::string text = Numbers();
  const std::string whole = PackText(text);
  EXPECT_FALSE(UnpackText("", 1000).ok());
  EXPECT_FALSE(UnpackText(whole + "x", text.size()).ok());
  std::mt19937_64 random(3);
  for (int i = 0; i < 200; ++i) {
    EXPECT_FALSE(UnpackText(whole.substr(0, random() % whole.size()), text.size()).ok());
    std::string bytes = whole;
    bytes[random() % bytes.size()] ^= static_cast<char>(1 << random() % 8);
    const auto unpacked = UnpackText(bytes, text.size());
    EXPECT_TRUE(!unpacked.ok() || unpacked->size() == text.size());
  }
}

}  // namespace
}  // namespace baton
