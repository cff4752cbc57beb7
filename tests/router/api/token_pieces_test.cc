#include "router/api/token_pieces.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/router/api/played_answer.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Texts = std::vector<std::string>;

void AddTo(TokenPieces& pieces, const std::string& text, const Texts& tokens) {
  google::protobuf::RepeatedPtrField<v1::TokenLogprob> logprobs;
  for (size_t i = 0; i < tokens.size(); ++i) *logprobs.Add() = LogprobOfToken(tokens[i], i);
  pieces.Add(text, logprobs);
}

// Each piece as its text and the bytes of its tokens.
std::vector<Texts> Take(TokenPieces& pieces, bool last) {
  std::vector<Texts> result;
  while (const auto piece = pieces.Next(last)) {
    Texts& entry = result.emplace_back(Texts{piece->text});
    for (const v1::TokenLogprob& token : piece->tokens) entry.push_back(token.token());
  }
  return result;
}

TEST(TokenPieces, CutsATextWhereItsTokensEnd) {
  TokenPieces pieces;
  AddTo(pieces, "Hello there", {"Hel", "lo", " there"});
  EXPECT_THAT(Take(pieces, false),
              ElementsAre(Texts{"Hel", "Hel"}, Texts{"lo", "lo"}, Texts{" there", " there"}));
}

TEST(TokenPieces, LetsTextPassThatHasNoTokens) {
  TokenPieces pieces;
  AddTo(pieces, "Hello", {});
  EXPECT_THAT(Take(pieces, false), ElementsAre(Texts{"Hello"}));
}

TEST(TokenPieces, KeepsATokenUntilAllOfItsTextIsThere) {
  TokenPieces pieces;
  AddTo(pieces, "He", {"Hel"});
  EXPECT_THAT(Take(pieces, false), IsEmpty());
  AddTo(pieces, "l", {});
  EXPECT_THAT(Take(pieces, false), ElementsAre(Texts{"Hel", "Hel"}));
}

TEST(TokenPieces, PutsTokensTogetherThatShareACharacter) {
  TokenPieces pieces;
  AddTo(pieces, "", {"\xE6", "\x97"});
  EXPECT_THAT(Take(pieces, false), IsEmpty());
  AddTo(pieces, "\u65e5!", {"\xA5", "!"});
  EXPECT_THAT(Take(pieces, false),
              ElementsAre(Texts{"\u65e5", "\xE6", "\x97", "\xA5"}, Texts{"!", "!"}));
}

TEST(TokenPieces, GivesASkippedTokenNoText) {
  TokenPieces pieces;
  AddTo(pieces, "Hi", {"<|im_start|>", "Hi"});
  EXPECT_THAT(Take(pieces, false), ElementsAre(Texts{"", "<|im_start|>"}, Texts{"Hi", "Hi"}));
}

TEST(TokenPieces, FindsTheCharacterThatStandsForBadBytes) {
  TokenPieces pieces;
  AddTo(pieces, "a\uFFFD", {"a", "\xFF"});
  EXPECT_THAT(Take(pieces, false), ElementsAre(Texts{"a", "a"}, Texts{"\uFFFD", "\xFF"}));
}

TEST(TokenPieces, ShowsWhatStandsBeforeAStopStringAtTheEnd) {
  TokenPieces pieces;
  AddTo(pieces, "one", {"one", " sto", "p"});
  EXPECT_THAT(Take(pieces, false), ElementsAre(Texts{"one", "one"}));
  AddTo(pieces, " s", {});
  EXPECT_THAT(Take(pieces, true), ElementsAre(Texts{" s", " sto"}, Texts{"", "p"}));
}

}  // namespace
}  // namespace baton
