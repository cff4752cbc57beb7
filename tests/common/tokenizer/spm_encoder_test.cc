#include "common/tokenizer/spm_encoder.h"

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

// The tokens ▁=0 a=1 b=2 ab=3 ba=4 ▁a=5 and the byte piece of "c", 6.
class SpmEncoderTest : public ::testing::Test {
 protected:
  static Vocabulary Make() {
    return *Vocabulary::Create({"▁", "a", "b", "ab", "ba", "▁a", "<0x63>"}, {1, 1, 1, 1, 1, 1, 6},
                               Vocabulary::Spelling::kSentencePiece);
  }
  std::string Fault(const std::vector<float>& scores) const {
    return std::string(SpmEncoder::Create(vocabulary_, scores, true).status().message());
  }
  EncodedText Encode(const PlainText& plain, std::vector<float> scores,
                     bool add_space_prefix = false) const {
    EncodedText encoded;
    const auto encoder = SpmEncoder::Create(vocabulary_, scores, add_space_prefix);
    EXPECT_TRUE(encoder.ok()) << encoder.status();
    if (encoder.ok()) (*encoder)->Encode(plain, encoded);
    return encoded;
  }

  const Vocabulary vocabulary_ = Make();
};

TEST_F(SpmEncoderTest, TheHighestScoreMergesFirstAndTheLeftmostAtATie) {
  EXPECT_THAT(Encode({.text = "abab"}, {0, 0, 0, -1, -2, -3, 0}).ids, ElementsAre(3, 3));
  EXPECT_THAT(Encode({.text = "abab"}, {0, 0, 0, -2, -1, -3, 0}).ids, ElementsAre(1, 4, 2));
  EXPECT_THAT(Encode({.text = "aba"}, {0, 0, 0, -1, -1, -3, 0}).ids, ElementsAre(3, 1));
}

TEST_F(SpmEncoderTest, ASpaceIsPutInFrontOfWhatBeginsAText) {
  const std::vector<float> scores = {0, 0, 0, -1, -2, -3, 0};
  EXPECT_THAT(Encode({.text = "a", .offset = 0, .begins = true}, scores, true).ids, ElementsAre(5));
  EXPECT_THAT(Encode({.text = "a", .offset = 3, .begins = false}, scores, true).ids,
              ElementsAre(1));
  EXPECT_THAT(Encode({.text = "a", .offset = 0, .begins = true}, scores, false).ids,
              ElementsAre(1));
}

TEST_F(SpmEncoderTest, ACharacterWithoutATokenBecomesItsBytesOrIsTold) {
  const EncodedText encoded =
      Encode({.text = "▁c▁d!", .offset = 10, .begins = true}, std::vector<float>(7), true);
  EXPECT_THAT(encoded.ids, ElementsAre(0, 0, 6, 0));
  ASSERT_TRUE(encoded.first_left_out.has_value());
  EXPECT_EQ(encoded.first_left_out->byte, 'd');
  EXPECT_EQ(encoded.first_left_out->offset, 17u) << "in the text, without the space in front";
}

TEST_F(SpmEncoderTest, ScoresAreFiniteAndOneForEachToken) {
  EXPECT_EQ(Fault({0, 0}), "tokenizer.ggml.scores has 2 entries, but tokenizer.ggml.tokens has 7");
  EXPECT_EQ(Fault({0, 0, std::nanf(""), 0, 0, 0, 0}),
            "tokenizer.ggml.scores[2] is not a finite number");
  const std::string piece(SpmEncoder::kMaxPieceBytes + 1, 'x');
  const Vocabulary large =
      *Vocabulary::Create({"a", piece}, {}, Vocabulary::Spelling::kSentencePiece);
  EXPECT_EQ(SpmEncoder::Create(large, {0, 0}, true).status().message(),
            "tokenizer.ggml.tokens[1] has 1025 bytes; at most 1024 are supported");
}

}  // namespace
}  // namespace baton
