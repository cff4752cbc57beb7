// Files that hold no tokenizer, one that is not supported, or a damaged one.
#include <random>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/tokenizer/tokenizer.h"
#include "tests/common/tokenizer/small_vocabulary.h"

namespace baton {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr EncodeOptions kLoadLossy = {
    .add_special_tokens = false, .parse_special = true, .lossy = true};

std::string LoadError(const GgufBuilder& builder) {
  return std::string(Load(builder).status().message());
}

TEST(TokenizerLoad, RefusesByNameWhatItDoesNotKnow) {
  GgufBuilder bert;
  bert.Text("tokenizer.ggml.model", "bert");
  EXPECT_THAT(LoadError(bert), HasSubstr("made.gguf: tokenizer.ggml.model: tokenizer \"bert\""));
  EXPECT_THAT(LoadError(Small("bloom")), HasSubstr("pre-tokenizer \"bloom\" is not supported"));
  EXPECT_THAT(LoadError(GgufBuilder()), HasSubstr("tokenizer.ggml.model"));
  GgufBuilder no_pre;
  no_pre.Text("tokenizer.ggml.model", "gpt2");
  EXPECT_THAT(LoadError(no_pre), HasSubstr("tokenizer.ggml.pre"));
  EXPECT_THAT(LoadError(Scheme("gpt-2")), HasSubstr("tokenizer.ggml.tokens"));
  EXPECT_THAT(LoadError(Scheme("gpt-2").Texts("tokenizer.ggml.tokens", {"a"})),
              HasSubstr("tokenizer.ggml.merges"));
}

TEST(TokenizerLoad, OfAHostileNameAnErrorHasAPrintableBeginning) {
  GgufBuilder model;
  model.Text("tokenizer.ggml.model", "\x1b]0;x" + std::string(1 << 20, '\n'));
  for (const std::string& error :
       {LoadError(model), LoadError(Small("\x1b" + std::string(1 << 20, 'x')))}) {
    EXPECT_THAT(error, HasSubstr("\\u001b"));
    EXPECT_THAT(error, Not(AnyOf(HasSubstr("\x1b"), HasSubstr("\n"))));
    EXPECT_LT(error.size(), 4000u);
  }
}

TEST(TokenizerLoad, RefusesArraysAndIdsThatDoNotFit) {
  const auto tokens = [](const std::vector<std::string>& texts) {
    return Scheme("gpt-2").Texts("tokenizer.ggml.tokens", texts);
  };
  const auto error_with_merges = [](GgufBuilder builder, const std::vector<std::string>& merges) {
    return LoadError(builder.Texts("tokenizer.ggml.merges", merges));
  };
  EXPECT_THAT(error_with_merges(tokens({}), {}), HasSubstr("tokens has 0 entries"));
  EXPECT_THAT(error_with_merges(tokens({"a"}), {"a a"}), HasSubstr("merges[0] \"a a\" makes"));
  EXPECT_THAT(error_with_merges(tokens({"abc"}), {}), HasSubstr("not a byte-level vocabulary"));
  EXPECT_THAT(error_with_merges(tokens({"a"}).Int32s("tokenizer.ggml.token_type", {1, 1}), {}),
              HasSubstr("token_type has 2 entries"));
  EXPECT_THAT(error_with_merges(tokens({"a"}).Int32s("tokenizer.ggml.token_type", {}), {}),
              HasSubstr("token_type"));
  EXPECT_THAT(
      error_with_merges(
          tokens({"a", std::string(1025, 'x')}).Int32s("tokenizer.ggml.token_type", {1, 3}), {}),
      HasSubstr("tokens[1], a special token, has 1025 bytes"));
  EXPECT_THAT(LoadError(Small("gpt-2").Uint32("tokenizer.ggml.eos_token_id", 10)),
              HasSubstr("tokenizer.ggml.eos_token_id is 10, but the vocabulary has 10 tokens"));
  EXPECT_THAT(LoadError(Small("gpt-2").Uint32("tokenizer.ggml.eot_token_id", 4'000'000'000u)),
              HasSubstr("tokenizer.ggml.eot_token_id"));
  EXPECT_THAT(LoadError(Small("gpt-2").Bool("tokenizer.ggml.add_bos_token", true)),
              HasSubstr("tokenizer.ggml.bos_token_id is missing"));
}

TEST(TokenizerLoad, SurvivesRandomDamageToItsFile) {
  std::mt19937 random(6);
  const std::string whole = Small("llama-bpe")
                                .Uint32("tokenizer.ggml.bos_token_id", 4)
                                .Bool("tokenizer.ggml.add_bos_token", true)
                                .Text("tokenizer.chat_template", "{{ x }}")
                                .Build();
  int loaded = 0;
  for (int round = 0; round < 10'000; ++round) {
    std::string bytes = whole;
    for (size_t changes = 1 + random() % 3; changes > 0; --changes) {
      bytes[random() % bytes.size()] = static_cast<char>(random());
    }
    const auto file = GgufFile::Parse(bytes, "damaged.gguf", GgufFile::Part::kTokenizer);
    if (!file.ok()) continue;
    const auto tokenizer = Tokenizer::Load(*file);
    if (!tokenizer.ok()) {
      ASSERT_THAT(std::string(tokenizer.status().message()), HasSubstr("damaged.gguf: "));
      continue;
    }
    ++loaded;
    const absl::StatusOr<std::vector<int32_t>> ids =
        (*tokenizer)->Encode("abb <s>a b\xFF<u>", kLoadLossy);
    ASSERT_TRUE(ids.ok()) << ids.status();
    (*tokenizer)->Decode(*ids, true);
  }
  EXPECT_GT(loaded, 100);
}

}  // namespace

}  // namespace baton
