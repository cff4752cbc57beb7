#include "common/tokenizer/character_encoder.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

// The tokens <unk>=0 ▁=1 a=2 ▁a=3 and the byte pieces of "é", 4 and 5; "aa"=6 has no merge.
class CharacterEncoderTest : public ::testing::Test {
 protected:
  using Prefix = CharacterEncoder::Prefix;

  EncodedText Encode(const PlainText& plain, const CharacterEncoder::Options& options) const {
    const CharacterEncoder encoder(*PreTokenizer::Create(std::vector<SplitRule>()), vocabulary_,
                                   {*vocabulary_.ResolveMerge("▁", "a")}, options);
    EncodedText encoded;
    encoder.Encode(plain, encoded);
    EXPECT_TRUE(encoded.status.ok()) << encoded.status;
    return encoded;
  }
  std::vector<int32_t> Ids(const std::string& text,
                           const CharacterEncoder::Options& options) const {
    return Encode({.text = text, .offset = 0, .begins = true}, options).ids;
  }
  static Vocabulary Make(std::vector<int64_t> kinds) {
    return *Vocabulary::Create({"<unk>", "▁", "a", "▁a", "<0xC3>", "<0xA9>", "aa"}, kinds,
                               Vocabulary::Spelling::kSentencePiece);
  }

  Vocabulary vocabulary_ = Make({2, 1, 1, 1, 6, 6, 1});
};

TEST_F(CharacterEncoderTest, APrefixIsPutWhereItsKindSays) {
  const auto encode = [this](const std::string& text, Prefix prefix, size_t offset, bool begins) {
    return Encode({.text = text, .offset = offset, .begins = begins},
                  {.replace_spaces = true, .prefix = prefix})
        .ids;
  };
  EXPECT_THAT(encode("a", Prefix::kNone, 0, true), ElementsAre(2));
  EXPECT_THAT(encode(" a", Prefix::kAlways, 7, true), ElementsAre(1, 3));
  EXPECT_THAT(encode("a", Prefix::kAlways, 7, false), ElementsAre(2));
  EXPECT_THAT(encode(" a", Prefix::kMissing, 7, true), ElementsAre(3));
  EXPECT_THAT(encode("a", Prefix::kMissing, 7, true), ElementsAre(3));
  EXPECT_THAT(encode("a", Prefix::kFirst, 7, true), ElementsAre(2));
  EXPECT_THAT(encode("a", Prefix::kFirst, 0, true), ElementsAre(3));
}

TEST_F(CharacterEncoderTest, SpacesMergeOnceTheyAreReplaced) {
  EXPECT_THAT(Ids("a a", {.replace_spaces = true}), ElementsAre(2, 3));
  EXPECT_THAT(Ids("a a", {}), ElementsAre(2, 0, 2)) << "a plain space has no token";
}

TEST_F(CharacterEncoderTest, CharactersWithoutATokenBecomeBytesOrUnknownOnes) {
  EXPECT_THAT(Ids("aé", {.byte_fallback = true}), ElementsAre(2, 4, 5));
  EXPECT_THAT(Ids("éa", {}), ElementsAre(0, 2));
  EXPECT_THAT(Ids("xya", {.byte_fallback = true}), ElementsAre(0, 0, 2));
  EXPECT_THAT(Ids("xya", {.fuse_unknown = true}), ElementsAre(0, 2));
}

TEST_F(CharacterEncoderTest, APieceThatIsATokenIsTakenWholeWhereThatIsAskedFor) {
  EXPECT_THAT(Ids("aa", {}), ElementsAre(2, 2));
  EXPECT_THAT(Ids("aa", {.takes_known_pieces_whole = true}), ElementsAre(6));
}

TEST_F(CharacterEncoderTest, WithoutAnUnknownTokenTheFirstByteThatIsLeftOutIsTold) {
  vocabulary_ = Make({3, 1, 1, 1, 6, 6, 1});
  const EncodedText encoded = Encode({.text = "axy", .offset = 10}, {});
  EXPECT_THAT(encoded.ids, ElementsAre(2));
  ASSERT_TRUE(encoded.first_left_out.has_value());
  EXPECT_EQ(encoded.first_left_out->offset, 11u);
  EXPECT_EQ(encoded.first_left_out->byte, 'x');
}

}  // namespace
}  // namespace baton
