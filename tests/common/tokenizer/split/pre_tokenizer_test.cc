#include "common/tokenizer/split/pre_tokenizer.h"

#include <fstream>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr const char* kNames[] = {"gpt-2", "starcoder", "smollm", "llama-bpe", "qwen2"};

PreTokenizer Make(const std::string& name, const PreTokenizerOptions& options = {}) {
  absl::StatusOr<PreTokenizer> pre_tokenizer = PreTokenizer::Create(name, options);
  if (!pre_tokenizer.ok()) std::abort();
  return *std::move(pre_tokenizer);
}

std::vector<std::string> Pieces(const PreTokenizer& pre_tokenizer, absl::string_view text) {
  std::vector<std::string> pieces;
  const absl::Status status =
      pre_tokenizer.Split(text, [&](absl::string_view piece) { pieces.emplace_back(piece); });
  EXPECT_TRUE(status.ok()) << status;
  return pieces;
}

std::string Joined(const std::vector<std::string>& pieces) {
  std::string text;
  for (const std::string& piece : pieces) text += piece;
  return text;
}

// Random text of characters, and of invalid bytes, at which the expressions split differently.
std::string MixedText(std::mt19937& random, bool well_formed) {
  static const std::vector<std::string> kParts = {" ",
                                                  " ",
                                                  "  ",
                                                  "\t",
                                                  "\n",
                                                  "\r",
                                                  "\r\n",
                                                  "a",
                                                  "Z",
                                                  "'s",
                                                  "'S",
                                                  "'ll",
                                                  "'",
                                                  "é",
                                                  "中",
                                                  "1",
                                                  "23",
                                                  "٣",
                                                  "½",
                                                  "\u00A0",
                                                  "\u3000",
                                                  ".",
                                                  "!?",
                                                  "🙂",
                                                  "\u200D",
                                                  "e\u0301",
                                                  "ſ",
                                                  "\u180E",
                                                  "\u0085",
                                                  "\u2028",
                                                  std::string(1, '\0'),
                                                  "_"};
  static const std::vector<std::string> kBroken = {"\xFF", "\xC3", "\xE4\xB8", "\x80",
                                                   "\xED\xA0\x80"};
  std::string text;
  for (size_t parts = random() % 16; parts > 0; --parts) {
    if (!well_formed && random() % 4 == 0) {
      text += kBroken[random() % kBroken.size()];
    } else {
      text += kParts[random() % kParts.size()];
    }
  }
  return text;
}

TEST(PreTokenizer, CutsTheReferenceStringsLikeTheReference) {
  std::ifstream file(std::string(BATON_TEST_DATA) + "/tokenizer/pretokenizers.jsonl");
  std::vector<PreTokenizer> pre_tokenizers;
  for (const char* name : kNames) pre_tokenizers.push_back(Make(name));
  int strings = 0;
  for (std::string line; std::getline(file, line); ++strings) {
    const nlohmann::json vector = nlohmann::json::parse(line);
    const std::string text = vector["text"];
    for (size_t i = 0; i < pre_tokenizers.size(); ++i) {
      const std::vector<std::string> expected = vector[kNames[i]];
      EXPECT_EQ(Pieces(pre_tokenizers[i], text), expected) << kNames[i] << ": " << text;
    }
  }
  EXPECT_EQ(strings, 160);
}

TEST(PreTokenizer, LosesNoByteAndEmitsNoEmptyPieceWhateverTheBytes) {
  std::mt19937 random(1);
  for (const char* name : kNames) {
    const PreTokenizer pre_tokenizer = Make(name);
    for (int round = 0; round < 3'000; ++round) {
      const std::string text = MixedText(random, false);
      const std::vector<std::string> pieces = Pieces(pre_tokenizer, text);
      ASSERT_EQ(Joined(pieces), text) << name;
      ASSERT_THAT(pieces, testing::Not(testing::Contains(""))) << name;
    }
  }
}

TEST(PreTokenizer, InterpreterAndJitCutAlike) {
  std::mt19937 random(2);
  for (const char* name : kNames) {
    const PreTokenizer jit = Make(name);
    const PreTokenizer interpreter = Make(name, {.use_jit = false});
    for (int round = 0; round < 3'000; ++round) {
      const std::string text = MixedText(random, round % 2 == 0);
      ASSERT_EQ(Pieces(jit, text), Pieces(interpreter, text)) << name << ": " << text;
    }
  }
}

// starcoder and smollm are defined as two steps: each digit is a piece, then GPT-2's expression
// splits the text between digits.
TEST(PreTokenizer, DigitsApartEqualsItsDefinitionInTwoSteps) {
  std::mt19937 random(3);
  const PreTokenizer one_step = Make("smollm");
  const PreTokenizer gpt2 = Make("gpt-2");
  const std::vector<std::string> numbers = {"1", "2", "3", "٣", "½"};
  for (int round = 0; round < 5'000; ++round) {
    const std::string text = MixedText(random, true);
    std::vector<std::string> expected;
    std::string between;
    const auto flush = [&] {
      for (std::string& piece : Pieces(gpt2, between)) expected.push_back(std::move(piece));
      between.clear();
    };
    for (size_t i = 0; i < text.size();) {
      std::string number;
      for (const std::string& candidate : numbers) {
        if (text.compare(i, candidate.size(), candidate) == 0) number = candidate;
      }
      if (number.empty()) {
        between.push_back(text[i++]);
        continue;
      }
      flush();
      expected.push_back(number);
      i += number.size();
    }
    flush();
    ASSERT_EQ(Pieces(one_step, text), expected) << text;
  }
}

TEST(PreTokenizer, ARunOfBadBytesIsOnePieceAndEndsTheTextBesideIt) {
  const PreTokenizer pre_tokenizer = Make("gpt-2");
  EXPECT_THAT(Pieces(pre_tokenizer, "ab  \xFF\x80\xC3 cd"),
              ElementsAre("ab", "  ", "\xFF\x80\xC3", " cd"));
  EXPECT_THAT(Pieces(pre_tokenizer, "a\xE4\xB8"), ElementsAre("a", "\xE4\xB8"));
  EXPECT_THAT(Pieces(pre_tokenizer, "\xED\xA0\x80"), ElementsAre("\xED\xA0\x80"));
}

TEST(PreTokenizer, SpacesAreThoseOfUnicodeToday) {
  const PreTokenizer pre_tokenizer = Make("gpt-2");
  // U+180E has not been white space since Unicode 6.3; U+0085 and U+00A0 are.
  EXPECT_THAT(Pieces(pre_tokenizer, "\u180E!"), ElementsAre("\u180E!"));
  EXPECT_THAT(Pieces(pre_tokenizer, "a\u0085\u00A0b"), ElementsAre("a", "\u0085", "\u00A0", "b"));
}

TEST(PreTokenizer, LettersAndNumbersAreThoseOfUnicode16) {
  const PreTokenizer pre_tokenizer = Make("gpt-2");
  for (const char* letter : {"\u1C89", "\uA7CB", "\U00013460", "\U000143FA", "\U0001611D",
                             "\U0001E4D0", "\U0002EE5D", "\U000323AF"}) {
    const std::string word = absl::StrCat("a", letter, "b");
    EXPECT_THAT(Pieces(pre_tokenizer, word), ElementsAre(word));
  }
  for (const char* number : {"\U00010D40", "\U00011F59", "\U0001CCF9", "\U0001E5FA"}) {
    const std::string digits = absl::StrCat("1", number, "2");
    EXPECT_THAT(Pieces(pre_tokenizer, digits), ElementsAre(digits));
  }
  EXPECT_THAT(Pieces(pre_tokenizer, "a\U000143FBb"), ElementsAre("a", "\U000143FB", "b"));
}

TEST(PreTokenizer, ContractionsFoldCaseOnlyWhereTheExpressionSaysSo) {
  EXPECT_THAT(Pieces(Make("gpt-2"), "DON'T don't"), ElementsAre("DON", "'", "T", " don", "'t"));
  EXPECT_THAT(Pieces(Make("qwen2"), "DON'T don't"), ElementsAre("DON", "'T", " don", "'t"));
}

TEST(PreTokenizer, LongRunsAreCutRightWithAndWithoutJit) {
  constexpr size_t kSize = 300'000;
  for (const bool use_jit : {true, false}) {
    for (const char* name : kNames) {
      const PreTokenizer pre_tokenizer = Make(name, {.use_jit = use_jit});
      const std::string spaces(kSize, ' ');
      EXPECT_THAT(Pieces(pre_tokenizer, spaces), ElementsAre(spaces)) << name;
      EXPECT_THAT(Pieces(pre_tokenizer, spaces + " x"), ElementsAre(spaces, " x")) << name;
      const std::string letters(kSize, 'a');
      EXPECT_THAT(Pieces(pre_tokenizer, letters), ElementsAre(letters)) << name;
      const std::string newlines(kSize, '\n');
      EXPECT_THAT(Pieces(pre_tokenizer, newlines), ElementsAre(newlines)) << name;
      const std::string apostrophes(kSize, '\'');
      EXPECT_THAT(Pieces(pre_tokenizer, apostrophes), ElementsAre(apostrophes)) << name;
      const std::string digits(kSize, '7');
      EXPECT_EQ(Joined(Pieces(pre_tokenizer, digits)), digits) << name;
    }
  }
}

TEST(PreTokenizer, LongRunsOfOneKindAreLinearForEveryName) {
  // Nothing here may use up the steps that a text has.
  const std::vector<std::string> names = {"tekken", "gpt-4o",         "qwen35", "deepseek-v3",
                                          "falcon", "deepseek-coder", "smollm", "llama-bpe"};
  for (const std::string& name : names) {
    for (const bool use_jit : {true, false}) {
      const PreTokenizer pre_tokenizer = Make(name, {.use_jit = use_jit});
      for (const std::string unit : {" ", "a", "A", "aB", "中", "中A", "\u0301", "7", "'", "/",
                                     "\n", " \n", "\t x", "'s", "ª", "ªA"}) {
        std::string text;
        while (text.size() < 30'000) text += unit;
        std::string joined;
        const absl::Status status = pre_tokenizer.Split(
            text, [&](absl::string_view piece) { joined.append(piece.data(), piece.size()); });
        EXPECT_TRUE(status.ok()) << name << " " << unit << ": " << status;
        EXPECT_TRUE(joined == text) << name << " " << unit;
      }
    }
  }
}

TEST(PreTokenizer, CutsMoreReferenceStringsLikeTheReference) {
  std::ifstream file(std::string(BATON_TEST_DATA) + "/tokenizer/pretokenizers_more.jsonl");
  const std::vector<std::string> names = {"qwen35",      "tekken",         "gpt-4o",
                                          "deepseek-v3", "deepseek-coder", "falcon"};
  std::vector<PreTokenizer> pre_tokenizers;
  for (const std::string& name : names) pre_tokenizers.push_back(Make(name));
  int strings = 0;
  for (std::string line; std::getline(file, line); ++strings) {
    const nlohmann::json vector = nlohmann::json::parse(line);
    const std::string text = vector["text"];
    for (size_t i = 0; i < names.size(); ++i) {
      std::vector<size_t> sizes;
      for (const std::string& piece : Pieces(pre_tokenizers[i], text))
        sizes.push_back(piece.size());
      EXPECT_EQ(sizes, vector[names[i]].get<std::vector<size_t>>()) << names[i] << ": " << text;
    }
  }
  EXPECT_EQ(strings, 240);
}

TEST(PreTokenizer, NamesOfOneSchemeCutAlike) {
  std::mt19937 random(5);
  const std::vector<std::vector<std::string>> same = {
      {"gpt-2", "phi-2", "mpt", "olmo"},
      {"smollm", "starcoder", "refact", "command-r"},
      {"llama-bpe", "llama3", "dbrx", "smaug-bpe", "pixtral", "glm4"},
      {"qwen2", "stablelm2", "deepseek-r1-qwen", "hunyuan"},
      {"gpt-4o", "llama4"}};
  for (const std::vector<std::string>& names : same) {
    const PreTokenizer first = Make(names[0]);
    for (const std::string& name : names) {
      const PreTokenizer other = Make(name);
      for (int round = 0; round < 100; ++round) {
        const std::string text = MixedText(random, true);
        ASSERT_EQ(Pieces(other, text), Pieces(first, text)) << name;
      }
    }
  }
  EXPECT_TRUE(Make("tekken").takes_known_pieces_whole());
  EXPECT_FALSE(Make("dbrx").takes_known_pieces_whole());
  EXPECT_FALSE(Make("glm4").adds_bos_by_default());
}

// The examples of Hugging Face's documentation of SplitDelimiterBehavior.
TEST(PreTokenizer, ARuleDoesWithAMatchWhatItSays) {
  using Behavior = SplitRule::Behavior;
  const auto pieces = [](Behavior behavior, bool invert = false) {
    const std::string expression = invert ? "[^-]+" : "-";
    auto made =
        PreTokenizer::Create({{.expression = expression, .behavior = behavior, .invert = invert}});
    EXPECT_TRUE(made.ok()) << made.status();
    return Pieces(*made, "the-final--countdown");
  };
  for (const bool invert : {false, true}) {
    EXPECT_THAT(pieces(Behavior::kRemoved, invert), ElementsAre("the", "final", "countdown"));
    EXPECT_THAT(pieces(Behavior::kContiguous, invert),
                ElementsAre("the", "-", "final", "--", "countdown"));
  }
  EXPECT_THAT(pieces(Behavior::kIsolated), ElementsAre("the", "-", "final", "-", "-", "countdown"));
  EXPECT_THAT(pieces(Behavior::kMergedWithPrevious),
              ElementsAre("the-", "final-", "-", "countdown"));
  EXPECT_THAT(pieces(Behavior::kMergedWithNext), ElementsAre("the", "-final", "-", "-countdown"));
}

TEST(PreTokenizer, EachRuleSplitsThePiecesOfTheOneBefore) {
  const auto made = PreTokenizer::Create({{.expression = "b"}, {.expression = R"(\s+(?!\S))"}});
  ASSERT_TRUE(made.ok()) << made.status();
  // The second expression sees the end of its piece as the end of the text.
  EXPECT_THAT(Pieces(*made, "a  bc  d"), ElementsAre("a", "  ", "b", "c", " ", " d"));
  const auto none = PreTokenizer::Create(std::vector<SplitRule>{});
  EXPECT_THAT(Pieces(*none, "a b"), ElementsAre("a b"));
  EXPECT_FALSE(PreTokenizer::Create(std::vector<SplitRule>(17, {.expression = "a"})).ok());
}

TEST(PreTokenizer, RefusesAnUnknownNameAndTellsWhatThereIs) {
  const auto unknown = PreTokenizer::Create("bloom");
  EXPECT_EQ(unknown.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(unknown.status().message()),
              HasSubstr("\"bloom\" is not supported; supported are gpt-2, starcoder, smollm, "
                        "llama-bpe, qwen2"));
}

}  // namespace
}  // namespace baton
