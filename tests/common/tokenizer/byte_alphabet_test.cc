#include "common/tokenizer/byte_alphabet.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

std::string TwoByteCharacter(unsigned code_point) {
  return {static_cast<char>(0xC0 | code_point >> 6), static_cast<char>(0x80 | (code_point & 63))};
}

TEST(ByteAlphabet, HasOneCharacterForEachByte) {
  std::set<std::string> bytes;
  for (unsigned code_point = 0; code_point < 0x800; ++code_point) {
    const std::string character = code_point < 0x80 ? std::string(1, static_cast<char>(code_point))
                                                    : TwoByteCharacter(code_point);
    const auto byte = BytesFromAlphabet(character);
    if (!byte.has_value()) continue;
    EXPECT_EQ(byte->size(), 1u);
    EXPECT_TRUE(bytes.insert(*byte).second) << code_point;
  }
  EXPECT_EQ(bytes.size(), 256u);
}

TEST(ByteAlphabet, ReadsTheKnownCharacters) {
  EXPECT_EQ(BytesFromAlphabet("Ġthe"), " the");
  EXPECT_EQ(BytesFromAlphabet("ĊĉčĀ"), std::string("\n\t\r\0", 4));
  EXPECT_EQ(BytesFromAlphabet("Ã©"), "\xC3\xA9");
  EXPECT_EQ(BytesFromAlphabet("Ń"), "\xAD");  // the last character of the alphabet
  EXPECT_EQ(BytesFromAlphabet(""), "");
}

TEST(ByteAlphabet, RefusesOtherCharactersAndBrokenUtf8) {
  for (const char* text : {"a b", "\n", "ń", "日", "a\xC3", "\xA9", "\xC2\xAD"}) {
    EXPECT_EQ(BytesFromAlphabet(text), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace baton
