#include "common/tokenizer/utf8_stream.h"

#include <cstdint>
#include <random>
#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

// The decoder of the WHATWG Encoding Standard, 8.1.1, step by step.
std::string WhatwgDecode(const std::string& bytes) {
  std::string text;
  std::string seen;
  int needed = 0;
  uint8_t lower = 0x80;
  uint8_t upper = 0xBF;
  for (size_t i = 0; i < bytes.size(); ++i) {
    const auto byte = static_cast<uint8_t>(bytes[i]);
    if (needed == 0) {
      if (byte <= 0x7F) {
        text.push_back(bytes[i]);
        continue;
      }
      if (byte >= 0xC2 && byte <= 0xDF) {
        needed = 1;
      } else if (byte >= 0xE0 && byte <= 0xEF) {
        if (byte == 0xE0) lower = 0xA0;
        if (byte == 0xED) upper = 0x9F;
        needed = 2;
      } else if (byte >= 0xF0 && byte <= 0xF4) {
        if (byte == 0xF0) lower = 0x90;
        if (byte == 0xF4) upper = 0x8F;
        needed = 3;
      } else {
        text += "\uFFFD";
        continue;
      }
      seen.assign(1, bytes[i]);
      continue;
    }
    const bool fits = byte >= lower && byte <= upper;
    lower = 0x80;
    upper = 0xBF;
    if (!fits) {
      needed = 0;
      text += "\uFFFD";
      --i;  // the byte is looked at again
      continue;
    }
    seen.push_back(bytes[i]);
    if (--needed == 0) text += seen;
  }
  if (needed > 0) text += "\uFFFD";
  return text;
}

// Bytes at the borders of every rule, so that both whole characters and near misses come up often.
std::string RandomBytes(std::mt19937& random) {
  static const std::string kBytes =
      "a\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xED\xEF\xF0\xF1\xF4\xF5\xFF";
  std::string bytes(random() % 24, '\0');
  for (char& byte : bytes) byte = kBytes[random() % kBytes.size()];
  return bytes;
}

TEST(Utf8Stream, ReplacesWhatWhatwgReplaces) {
  std::mt19937 random(1);
  for (int round = 0; round < 100'000; ++round) {
    const std::string bytes = RandomBytes(random);
    ASSERT_EQ(ReplaceInvalidUtf8(bytes), WhatwgDecode(bytes)) << testing::PrintToString(bytes);
  }
}

TEST(Utf8Stream, AnySplitIntoTokensGivesTheTextOfTheWhole) {
  std::mt19937 random(2);
  for (int round = 0; round < 100'000; ++round) {
    const std::string bytes = RandomBytes(random);
    Utf8Stream stream;
    std::string text;
    for (size_t position = 0; position < bytes.size();) {
      const size_t size = random() % 5;
      const std::string delivered = stream.Push(absl::string_view(bytes).substr(position, size));
      // Never a part of a character: what was delivered is well-formed by itself.
      ASSERT_EQ(ReplaceInvalidUtf8(delivered), delivered);
      text += delivered;
      position += size;
    }
    text += stream.Finish();
    ASSERT_EQ(text, ReplaceInvalidUtf8(bytes)) << testing::PrintToString(bytes);
    ASSERT_EQ(stream.Finish(), "");
  }
}

TEST(Utf8Stream, HoldsAnEmojiBackUntilItsLastByte) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("x\xF0"), "x");
  EXPECT_EQ(stream.Push("\x9F\x9A"), "");
  EXPECT_EQ(stream.Push("\x80y"), "🚀y");
  EXPECT_EQ(stream.Finish(), "");
}

TEST(Utf8Stream, DeliversABadByteAsSoonAsItIsKnownToBeBad) {
  Utf8Stream stream;
  EXPECT_EQ(stream.Push("\xE2\x82"), "");
  EXPECT_EQ(stream.Push("a"), "\uFFFDa");
  EXPECT_EQ(stream.Push("\xFF"), "\uFFFD");
}

}  // namespace
}  // namespace baton
