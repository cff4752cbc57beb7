#include "common/tokenizer/byte_level_encoder.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// The tokens a=0 b=1 Ġ=2 ab=3 abb=4 and the two bytes of "é", 5 and 6.
class ByteLevelEncoderTest : public ::testing::Test {
 protected:
  ByteLevelEncoder Make(const ByteLevelEncoder::Options& options) const {
    auto encoder = ByteLevelEncoder::Create(*PreTokenizer::Create("gpt-2"), vocabulary_,
                                            *vocabulary_.ResolveMerges({"a b"}), options);
    EXPECT_TRUE(encoder.ok()) << encoder.status();
    return *std::move(encoder);
  }
  EncodedText Encode(const std::string& text, const ByteLevelEncoder::Options& options = {},
                     size_t offset = 0) const {
    EncodedText encoded;
    Make(options).Encode({.text = text, .offset = offset}, encoded);
    EXPECT_TRUE(encoded.status.ok()) << encoded.status;
    return encoded;
  }

  const Vocabulary vocabulary_ = *Vocabulary::Create({"a", "b", "Ġ", "ab", "abb", "Ã", "©"}, {});
};

TEST_F(ByteLevelEncoderTest, BytesMergeInsideThePiecesOnly) {
  EXPECT_THAT(Encode("ab abb").ids, ElementsAre(3, 2, 3, 1));
  EXPECT_THAT(Encode("aé").ids, ElementsAre(0, 5, 6));
}

TEST_F(ByteLevelEncoderTest, APieceThatIsATokenIsTakenWholeWhereThatIsAskedFor) {
  EXPECT_THAT(Encode("abb").ids, ElementsAre(3, 1));
  EXPECT_THAT(Encode("abb", {.takes_known_pieces_whole = true}).ids, ElementsAre(4));
}

TEST_F(ByteLevelEncoderTest, NormalFormCIsTakenWhereItIsAskedFor) {
  EXPECT_THAT(Encode("é", {.normal_form_c = true}).ids, ElementsAre(5, 6));
  EXPECT_THAT(Encode("e\xCC\x81", {.normal_form_c = true}).ids, ElementsAre(5, 6));
  EXPECT_TRUE(Encode("e\xCC\x81").first_left_out.has_value());
}

TEST_F(ByteLevelEncoderTest, TheFirstByteWithoutATokenIsTold) {
  const EncodedText encoded = Encode("ab!a?", {}, /*offset=*/10);
  EXPECT_THAT(encoded.ids, ElementsAre(3, 0));
  ASSERT_TRUE(encoded.first_left_out.has_value());
  EXPECT_EQ(encoded.first_left_out->offset, 12u);
  EXPECT_EQ(encoded.first_left_out->byte, '!');
  EXPECT_FALSE(Encode("ab").first_left_out.has_value());
}

TEST_F(ByteLevelEncoderTest, AVocabularyWithoutATokenOfAByteIsNone) {
  const Vocabulary words = *Vocabulary::Create({"ab", "abb"}, {});
  const absl::Status status =
      ByteLevelEncoder::Create(*PreTokenizer::Create("gpt-2"), words, {}, {}).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("not a byte-level vocabulary"));
}

}  // namespace
}  // namespace baton
