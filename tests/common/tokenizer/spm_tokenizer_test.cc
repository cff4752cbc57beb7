// Tokenizers of the model "llama": SentencePiece's BPE, read from GGUF metadata.
#include <algorithm>
#include <fstream>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "common/tokenizer/tokenizer.h"
#include "common/tokenizer/utf8_stream.h"
#include "tests/common/tokenizer/encode_options.h"
#include "tests/common/tokenizer/small_vocabulary.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ids = std::vector<int32_t>;

constexpr EncodeOptions kContinues = {.add_special_tokens = false, .continues = true};

const Tokenizer& Llama() {
  static const Tokenizer* const tokenizer = [] {
    const auto file =
        GgufFile::Open(std::string(BATON_TEST_DATA) + "/tokenizer/llama-spm-vocab.gguf",
                       GgufFile::Part::kTokenizer);
    auto loaded = Tokenizer::Load(*file);
    if (!loaded.ok()) std::abort();
    return loaded->release();
  }();
  return *tokenizer;
}

Ids Encode(const Tokenizer& tokenizer, const std::string& text, const EncodeOptions& options) {
  const absl::StatusOr<Ids> ids = tokenizer.Encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.value_or(Ids{});
}

// The tokens <unk>=0 <s>=1 </s>=2 ▁=3 a=4 b=5 ab=6 ▁a=7 ba=8 <u>=9 and, if wanted, a byte piece for
// 0x63 ("c") = 10. "ab" and "ba" have the highest score, "▁a" the lowest.
GgufBuilder SmallSpm(bool with_byte_piece = true) {
  std::vector<std::string> tokens = {"<unk>", "<s>", "</s>", "▁",  "a",
                                     "b",     "ab",  "▁a",   "ba", "<u>"};
  std::vector<int32_t> kinds = {2, 3, 3, 1, 1, 1, 1, 1, 1, 4};
  std::vector<float> scores = {0, 0, 0, -9, -9, -9, -1, -2, -1, 0};
  if (with_byte_piece) {
    tokens.push_back("<0x63>");
    kinds.push_back(6);
    scores.push_back(0);
  }
  GgufBuilder builder;
  builder.Text("tokenizer.ggml.model", "llama")
      .Texts("tokenizer.ggml.tokens", tokens)
      .Int32s("tokenizer.ggml.token_type", kinds)
      .Array("tokenizer.ggml.scores", 6, scores)
      .Uint32("tokenizer.ggml.bos_token_id", 1)
      .Uint32("tokenizer.ggml.eos_token_id", 2);
  return builder;
}

TEST(SpmTokenizer, EncodesTheReferenceStringsLikeTheReference) {
  std::ifstream file(std::string(BATON_TEST_DATA) + "/tokenizer/llama_spm_tokenizer.jsonl");
  int strings = 0;
  for (std::string line; std::getline(file, line); ++strings) {
    const nlohmann::json vector = nlohmann::json::parse(line);
    const std::string text = vector["text"];
    EXPECT_EQ(Encode(Llama(), text, kParse), vector["ids"].get<Ids>()) << text;
    const Ids plain = Encode(Llama(), text, kPlain);
    EXPECT_EQ(plain, vector["ids_plain"].get<Ids>()) << text;
    EXPECT_EQ(Llama().Decode(plain, false), absl::StrReplaceAll(text, {{"▁", " "}}));
  }
  EXPECT_EQ(strings, 168);
}

// A text may write U+2581, three bytes, where a token has a space.
TEST(SpmTokenizer, ATextHasAtLeastTheTokensThatItsBytesNeed) {
  const size_t most = Llama().max_bytes_of_token().value_or(0);
  ASSERT_GT(most, 0u);
  for (const char* part : {" ", "▁", "a", "▁a", "\n", "éa"}) {
    std::string text;
    for (int i = 0; i < 1000; ++i) text += part;
    EXPECT_GE(Encode(Llama(), text, kContinues).size() * most, text.size()) << part;
  }
}

TEST(SpmTokenizer, KnowsTheFactsOfTheVocabulary) {
  EXPECT_EQ(Llama().vocab_size(), 32000);
  EXPECT_EQ(Llama().bos_id(), 1);
  EXPECT_EQ(Llama().eos_id(), 2);
  EXPECT_THAT(Llama().end_of_generation_ids(), ElementsAre(2));
  EXPECT_TRUE(Llama().IsSpecial(0));
  EXPECT_FALSE(Llama().IsSpecial(13));
  EXPECT_EQ(Llama().TokenBytes(13), "\n");          // a byte piece
  EXPECT_EQ(Llama().TokenBytes(3 + 0xE2), "\xE2");  // half a character
  EXPECT_EQ(Llama().TokenBytes(450), " The");
  EXPECT_THAT(Encode(Llama(), "", EncodeOptions{}), ElementsAre(1));
  EXPECT_THAT(Encode(Llama(), "", kPlain), IsEmpty());
  EXPECT_THAT(Encode(Llama(), "The", EncodeOptions{}), ElementsAre(1, 450));
}

TEST(SpmTokenizer, TheSpaceInFrontIsNotPutIntoATextThatGoesOn) {
  EXPECT_THAT(Encode(Llama(), "The", kContinues), ElementsAre(1576));
  EXPECT_EQ(Llama().TokenBytes(1576), "The");
  EXPECT_THAT(Encode(**Load(SmallSpm()), "a", kPlain), ElementsAre(7));
  const GgufBuilder without = SmallSpm().Bool("tokenizer.ggml.add_space_prefix", false);
  EXPECT_THAT(Encode(**Load(without), "a", kPlain), ElementsAre(4));
  // A recognised literal begins a text anew, an ordinary one does not.
  EXPECT_THAT(Encode(**Load(SmallSpm()), "a</s>a", kParse), ElementsAre(7, 2, 7));
  EXPECT_THAT(Encode(**Load(without), "a</s>a", kParse), ElementsAre(4, 2, 4));
}

TEST(SpmTokenizer, DecodingDropsOneSpaceOfTheWholeText) {
  EXPECT_EQ(Llama().Decode(Ids{450}, true), "The");
  EXPECT_EQ(Llama().Decode(Ids{1, 450, 450}, true), "The The");
  EXPECT_EQ(Llama().Decode(Ids{1, 450}, false), "<s>The");
  EXPECT_EQ(Llama().Decode(Ids{1576, 450}, true), "The The");
  EXPECT_EQ(Llama().Decode(Encode(Llama(), "  two", kPlain), true), "  two");
  const auto without = Load(SmallSpm().Bool("tokenizer.ggml.add_space_prefix", false));
  EXPECT_EQ((*without)->Decode(Ids{7}, true), " a");
}

TEST(SpmTokenizer, WhatContinuesAPromptKeepsItsSpaces) {
  // A stream appends the bytes of each token to the prompt.
  const Ids prompt = Encode(Llama(), "The quick", kPlain);
  const Ids whole = Encode(Llama(), "The quick brown fox", kPlain);
  ASSERT_TRUE(std::equal(prompt.begin(), prompt.end(), whole.begin()));
  Utf8Stream stream;
  std::string answer;
  for (size_t i = prompt.size(); i < whole.size(); ++i) {
    answer += stream.Push(Llama().TokenBytes(whole[i]));
  }
  EXPECT_EQ(answer + stream.Finish(), " brown fox");
}

TEST(SpmTokenizer, TheHighestScoreMergesFirstAndTheLeftmostAtATie) {
  const auto tokenizer = Load(SmallSpm().Bool("tokenizer.ggml.add_space_prefix", false));
  EXPECT_THAT(Encode(**tokenizer, "aba", kPlain), ElementsAre(6, 4));
  EXPECT_THAT(Encode(**tokenizer, "bab", kPlain), ElementsAre(8, 5));
  EXPECT_THAT(Encode(**tokenizer, " ab", kPlain), ElementsAre(3, 6)) << "not ▁a, b";
}

// The definition, in quadratic time.
Ids NaiveEncode(const std::vector<std::string>& pieces, const std::vector<float>& scores,
                const std::string& text) {
  std::vector<std::string> symbols;
  for (const char byte : text) symbols.emplace_back(1, byte);
  while (true) {
    float best = -std::numeric_limits<float>::infinity();
    size_t at = symbols.size();
    for (size_t i = 0; i + 1 < symbols.size(); ++i) {
      const auto found = std::find(pieces.begin(), pieces.end(), symbols[i] + symbols[i + 1]);
      if (found == pieces.end()) continue;
      const float score = scores[static_cast<size_t>(found - pieces.begin())];
      if (score > best) {
        best = score;
        at = i;
      }
    }
    if (at == symbols.size()) break;
    symbols[at] += symbols[at + 1];
    symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(at) + 1);
  }
  Ids ids;
  for (const std::string& symbol : symbols) {
    const auto found = std::find(pieces.begin(), pieces.end(), symbol);
    ids.push_back(found == pieces.end() ? 0 : static_cast<int32_t>(found - pieces.begin()));
  }
  return ids;
}

TEST(SpmTokenizer, MergesAsTheDefinitionSays) {
  std::mt19937 random(1);
  for (int round = 0; round < 1'000; ++round) {
    std::vector<std::string> pieces = {"<unk>", "a", "b"};
    std::vector<float> scores = {0, 0, 0};
    while (pieces.size() < 3 + random() % 12) {
      std::string piece(2 + random() % 4, 'a');
      for (char& byte : piece) byte = "abc"[random() % 3];
      if (std::find(pieces.begin(), pieces.end(), piece) != pieces.end()) continue;
      pieces.push_back(piece);
      scores.push_back(-static_cast<float>(random() % 5));
    }
    std::vector<int32_t> kinds(pieces.size(), 1);
    kinds[0] = 2;
    GgufBuilder builder;
    builder.Text("tokenizer.ggml.model", "llama")
        .Texts("tokenizer.ggml.tokens", pieces)
        .Int32s("tokenizer.ggml.token_type", kinds)
        .Array("tokenizer.ggml.scores", 6, scores)
        .Bool("tokenizer.ggml.add_space_prefix", false);
    const auto tokenizer = Load(builder);
    ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
    for (int texts = 0; texts < 10; ++texts) {
      std::string text(1 + random() % 20, 'a');
      for (char& byte : text) byte = "aabbc"[random() % 5];
      ASSERT_EQ(Encode(**tokenizer, text, kPlain), NaiveEncode(pieces, scores, text)) << text;
    }
  }
}

TEST(SpmTokenizer, PlainTextBecomesNoSpecialTokenAndNoBytePiece) {
  for (const std::string text : {"<s>", "</s>", "<unk>", "a</s>", "<0x0A>"}) {
    for (const int32_t id : Encode(Llama(), text, kPlain)) EXPECT_GE(id, 259) << text;
  }
  const std::vector<TextPiece> pieces = {{"<s>", true}, {"</s>", false}, {"</s>", true}};
  const auto ids = Llama().Encode(pieces, false);
  ASSERT_TRUE(ids.ok());
  EXPECT_EQ(ids->front(), 1);
  EXPECT_EQ(ids->back(), 2);
  EXPECT_EQ(std::count(ids->begin(), ids->end(), 2), 1);
}

TEST(SpmTokenizer, EveryByteComesBack) {
  std::mt19937 random(2);
  for (int round = 0; round < 5'000; ++round) {
    std::string text(1 + random() % 24, ' ');
    for (char& byte : text)
      byte = static_cast<char>(random() % 3 == 0 ? random() : 'a' + random() % 4);
    std::string bytes;
    for (const int32_t id : Encode(Llama(), text, kContinues)) {
      absl::StrAppend(&bytes, Llama().TokenBytes(id));
    }
    ASSERT_EQ(bytes, text);
  }
}

TEST(SpmTokenizer, ABytesPieceThenTheUnknownTokenThenAnErrorStandForACharacter) {
  EXPECT_THAT(Encode(**Load(SmallSpm()), "ac", kPlain), ElementsAre(7, 10));
  EXPECT_THAT(Encode(**Load(SmallSpm(false)), "ac", kPlain), ElementsAre(7, 0));
  GgufBuilder bare;
  bare.Text("tokenizer.ggml.model", "llama")
      .Texts("tokenizer.ggml.tokens", {"▁", "a"})
      .Array<float>("tokenizer.ggml.scores", 6, {0, 0});
  const auto tokenizer = Load(bare);
  // The offset counts in the text as it was given.
  EXPECT_THAT(std::string((*tokenizer)->Encode("a▁ac", kPlain).status().message()),
              HasSubstr("byte 0x63 at offset 5"));
  EncodeOptions lossy = kPlain;
  lossy.lossy = true;
  EXPECT_THAT(Encode(**tokenizer, "aca", lossy), ElementsAre(0, 1, 1));
}

TEST(SpmTokenizer, AMegabyteOfAnyTextComesBack) {
  std::mt19937 random(3);
  for (const std::string unit : {"a", " ", "The cat sat. ", "中", "\xFF", "ab\n"}) {
    std::string text;
    while (text.size() < 1'000'000) text += unit;
    std::string back;
    for (const int32_t id : Encode(Llama(), text, kContinues)) {
      absl::StrAppend(&back, Llama().TokenBytes(id));
    }
    EXPECT_TRUE(back == text) << unit;
  }
}

TEST(SpmTokenizer, RefusesArraysThatDoNotFit) {
  const auto error = [](const std::vector<std::string>& tokens, const std::vector<int32_t>& kinds,
                        const std::vector<float>& scores) {
    GgufBuilder builder;
    builder.Text("tokenizer.ggml.model", "llama")
        .Texts("tokenizer.ggml.tokens", tokens)
        .Int32s("tokenizer.ggml.token_type", kinds)
        .Array("tokenizer.ggml.scores", 6, scores);
    return std::string(Load(builder).status().message());
  };
  EXPECT_THAT(error({"a", "b"}, {1, 1}, {0}), HasSubstr("tokenizer.ggml.scores has 1 entries"));
  EXPECT_THAT(error({"a", "b"}, {1, 1}, {0, std::numeric_limits<float>::quiet_NaN()}),
              HasSubstr("tokenizer.ggml.scores[1] is not a finite number"));
  EXPECT_THAT(error({"a", std::string(1025, 'x')}, {1, 1}, {0, 0}),
              HasSubstr("tokenizer.ggml.tokens[1] has 1025 bytes"));
  EXPECT_THAT(error({"a", "<0xZZ>"}, {1, 6}, {0, 0}), HasSubstr("tokenizer.ggml.tokens[1]"));
  EXPECT_THAT(error({"a", "<0x1FF>"}, {1, 6}, {0, 0}), HasSubstr("has the type byte"));
  GgufBuilder none;
  none.Text("tokenizer.ggml.model", "llama").Texts("tokenizer.ggml.tokens", {"a"});
  EXPECT_THAT(std::string(Load(none).status().message()), HasSubstr("tokenizer.ggml.scores"));
}

}  // namespace
}  // namespace baton
