#include "common/tokenizer/split/pre_tokenizer_schemes.h"

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::Contains;
using ::testing::StartsWith;

PreTokenizerScheme SchemeOf(const std::string& name) {
  const auto scheme = FindPreTokenizerScheme(name);
  EXPECT_TRUE(scheme.ok()) << scheme.status();
  return scheme.value_or(PreTokenizerScheme());
}

int ExpressionsOf(const std::string& name) {
  const PreTokenizerScheme scheme = SchemeOf(name);
  const auto end = std::find(scheme.expressions.begin(), scheme.expressions.end(), nullptr);
  return static_cast<int>(end - scheme.expressions.begin());
}

TEST(PreTokenizerSchemes, AnUnknownNameIsToldThoseThatThereAre) {
  const absl::Status status = FindPreTokenizerScheme("bloom").status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  const std::string message(status.message());
  const std::string begin =
      "tokenizer.ggml.pre: pre-tokenizer \"bloom\" is not supported; supported are ";
  ASSERT_THAT(message, StartsWith(begin));
  const std::vector<std::string> names = absl::StrSplit(message.substr(begin.size()), ", ");
  EXPECT_THAT(names, Contains("deepseek-v3"));
  for (const std::string& name : names) EXPECT_GE(ExpressionsOf(name), 1) << name;
  EXPECT_EQ(std::set<std::string>(names.begin(), names.end()).size(), names.size());
}

TEST(PreTokenizerSchemes, SayHowManyStepsTheyHave) {
  EXPECT_EQ(ExpressionsOf("gpt-2"), 1);
  EXPECT_EQ(ExpressionsOf("smollm"), 2);
  EXPECT_EQ(ExpressionsOf("falcon"), 3);
  EXPECT_EQ(ExpressionsOf("deepseek-coder"), 4);
  EXPECT_STREQ(SchemeOf("smollm").expressions[1], SchemeOf("gpt-2").expressions[0]);
}

TEST(PreTokenizerSchemes, SayWhetherPiecesAreTakenWholeAndBosIsAdded) {
  for (const char* name : {"llama-bpe", "falcon3", "tekken"}) {
    EXPECT_TRUE(SchemeOf(name).takes_known_pieces_whole) << name;
    EXPECT_TRUE(SchemeOf(name).adds_bos_by_default) << name;
  }
  EXPECT_TRUE(SchemeOf("glm4").takes_known_pieces_whole);
  EXPECT_FALSE(SchemeOf("glm4").adds_bos_by_default);
  for (const char* name : {"gpt-2", "qwen2", "dbrx"}) {
    EXPECT_FALSE(SchemeOf(name).takes_known_pieces_whole) << name;
    EXPECT_FALSE(SchemeOf(name).adds_bos_by_default) << name;
  }
}

}  // namespace
}  // namespace baton
