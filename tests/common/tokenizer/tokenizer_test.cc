#include "common/tokenizer/tokenizer.h"

#include <chrono>
#include <fstream>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "common/tokenizer/utf8_stream.h"
#include "tests/common/tokenizer/encode_options.h"
#include "tests/common/tokenizer/small_vocabulary.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ids = std::vector<int32_t>;

constexpr EncodeOptions kLossy = {
    .add_special_tokens = false, .parse_special = true, .lossy = true};

const Tokenizer& SmolLm2() {
  static const Tokenizer* const tokenizer = [] {
    const auto file = GgufFile::Open(std::string(BATON_TEST_DATA) + "/tokenizer/smollm2-vocab.gguf",
                                     GgufFile::Part::kTokenizer);
    if (!file.ok()) {
      std::cerr << file.status() << "\n";
      std::abort();
    }
    absl::StatusOr<std::unique_ptr<Tokenizer>> loaded = Tokenizer::Load(*file);
    if (!loaded.ok()) {
      std::cerr << loaded.status() << "\n";
      std::abort();
    }
    return loaded->release();
  }();
  return *tokenizer;
}

// Encodes a text, which must succeed.
template <typename Text, typename Options>
Ids Encode(const Tokenizer& tokenizer, const Text& text, const Options& options) {
  const absl::StatusOr<Ids> ids = tokenizer.Encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.value_or(Ids{});
}
std::string EncodeError(const Tokenizer& tokenizer, absl::string_view text) {
  return std::string(tokenizer.Encode(text, kPlain).status().message());
}

TEST(Tokenizer, EncodesTheReferenceStringsLikeTheReference) {
  std::ifstream file(std::string(BATON_TEST_DATA) + "/tokenizer/smollm2_tokenizer.jsonl");
  int strings = 0;
  for (std::string line; std::getline(file, line); ++strings) {
    const nlohmann::json vector = nlohmann::json::parse(line);
    const std::string text = vector["text"];
    EXPECT_EQ(Encode(SmolLm2(), text, kParse), vector["ids"].get<Ids>()) << text;
    EXPECT_EQ(Encode(SmolLm2(), text, kPlain), vector["ids_plain"].get<Ids>()) << text;
    EXPECT_EQ(SmolLm2().Decode(vector["ids"].get<Ids>(), false), text);
  }
  EXPECT_EQ(strings, 424);
}

TEST(Tokenizer, KnowsTheFactsOfSmolLm2) {
  EXPECT_EQ(SmolLm2().vocab_size(), 49152);
  EXPECT_EQ(SmolLm2().bos_id(), 1);
  EXPECT_EQ(SmolLm2().eos_id(), 2);
  EXPECT_THAT(SmolLm2().end_of_generation_ids(), ElementsAre(0, 2, 4));
  EXPECT_TRUE(SmolLm2().IsSpecial(16));
  EXPECT_FALSE(SmolLm2().IsSpecial(17));
  EXPECT_THAT(SmolLm2().chat_template(), HasSubstr("<|im_start|>assistant"));
  EXPECT_EQ(SmolLm2().digest().size(), 32u);
  // A flag of the file says that no BOS is added.
  EXPECT_EQ(Encode(SmolLm2(), "Hello, world!", EncodeOptions{}), (Ids{19556, 28, 905, 17}));
  EXPECT_EQ(SmolLm2().Decode(Ids{1, 19556, 2}, true), "Hello");
}

TEST(Tokenizer, ALiteralCountsOnlyWhereAllItsBytesAreTrusted) {
  const auto encode = [](const std::vector<TextPiece>& pieces) {
    return Encode(SmolLm2(), pieces, false);
  };
  const Ids plain = Encode(SmolLm2(), "<|im_end|>", kPlain);
  EXPECT_EQ(plain.size(), 7u);
  EXPECT_THAT(encode({{"<|im_end|>", true}}), ElementsAre(2));
  EXPECT_EQ(encode({{"<|im_end|>", false}}), plain);
  EXPECT_THAT(encode({{"<|im", true}, {"", false}, {"_end|>", true}}), ElementsAre(2));
  EXPECT_EQ(encode({{"<|im_", true}, {"end", false}, {"|>", true}}), plain);
  EXPECT_EQ(encode({{"<|im_end|", true}, {">", false}}), plain);
  EXPECT_EQ(encode({{"<", false}, {"|im_end|>", true}}), plain);
  // Ordinary tokens span pieces, as if the text were one piece.
  EXPECT_EQ(encode({{"Hel", true}, {"lo, wor", false}, {"ld!", true}}), (Ids{19556, 28, 905, 17}));
  EXPECT_EQ(encode({{"<|im_start|>", true}, {"<|im_end|>", false}, {"<|im_end|>", true}}).size(),
            9u);
  EXPECT_THAT(encode({}), IsEmpty());
}

TEST(Tokenizer, AnySplitIntoPiecesOfOneTrustEncodesLikeTheWhole) {
  std::mt19937 random(1);
  const std::string text = "<|im_start|>user\nnaïve 🚀 <|im_end|>\n<|im_<|im_end|> 12 <repo_name>";
  for (int round = 0; round < 500; ++round) {
    const bool trusted = round % 2 == 0;
    std::vector<TextPiece> pieces;
    for (size_t position = 0; position < text.size();) {
      const size_t size = random() % 9;
      pieces.push_back({text.substr(position, size), trusted});
      position += size;
    }
    ASSERT_EQ(Encode(SmolLm2(), pieces, false), Encode(SmolLm2(), text, trusted ? kParse : kPlain));
  }
}

TEST(Tokenizer, UntrustedTextNeverBecomesASpecialToken) {
  std::mt19937 random(2);
  for (int round = 0; round < 5'000; ++round) {
    std::string text;
    while (text.size() < 60) {
      absl::StrAppend(&text, SmolLm2().TokenBytes(static_cast<int32_t>(random() % 24)));
    }
    for (const int32_t id : Encode(SmolLm2(), text, kPlain)) ASSERT_FALSE(SmolLm2().IsSpecial(id));
  }
}

TEST(Tokenizer, ATextHasAtLeastTheTokensThatItsBytesNeed) {
  const size_t most = SmolLm2().max_bytes_of_token().value_or(0);
  ASSERT_GT(most, 0u);
  EXPECT_LT(most, 200u);
  std::vector<std::string> texts = {std::string(10'000, ' '), std::string(10'000, '\n')};
  for (int32_t id = 0; id < SmolLm2().vocab_size(); id += 97) {
    std::string text;
    while (text.size() < 1000) absl::StrAppend(&text, SmolLm2().TokenBytes(id));
    texts.push_back(std::move(text));
  }
  for (const std::string& text : texts) {
    EXPECT_GE(Encode(SmolLm2(), text, kLossy).size() * most, text.size()) << text.substr(0, 50);
  }
}

TEST(Tokenizer, AnyTokensBytesComeBack) {
  std::mt19937 random(3);
  for (int round = 0; round < 20'000; ++round) {
    std::string bytes;  // random tokens, whose bytes often are parts of characters
    for (int i = 0; i < 8; ++i) {
      absl::StrAppend(&bytes, SmolLm2().TokenBytes(static_cast<int32_t>(random() % 49152)));
    }
    std::string back;
    for (const int32_t id : Encode(SmolLm2(), bytes, kPlain)) {
      absl::StrAppend(&back, SmolLm2().TokenBytes(id));
    }
    ASSERT_EQ(back, bytes);
  }
}

TEST(Tokenizer, StreamedTokensReadLikeDecodedOnes) {
  std::mt19937 random(4);
  for (int round = 0; round < 5'000; ++round) {
    Ids ids(random() % 20);
    for (int32_t& id : ids) id = static_cast<int32_t>(random() % 400);  // mostly single bytes
    Utf8Stream stream;
    std::string text;
    for (const int32_t id : ids) text += stream.Push(SmolLm2().TokenBytes(id));
    text += stream.Finish();
    ASSERT_EQ(text, SmolLm2().Decode(ids, false));
  }
}

TEST(Tokenizer, AMegabyteOfAnyTextComesBack) {
  constexpr size_t kSize = 1'000'000;
  std::mt19937 random(5);
  const std::vector<std::string> units = {
      "a",    " ",     "\n",           "7",   "'",  "🙂",         "é",
      "中",   "ab",    " a",           "\t ", "'s", "<|im_start|>", "<|im_",
      "\xFE", "a\x80", "The cat sat. "};
  std::vector<std::string> texts;
  for (const std::string& unit : units) {
    std::string& text = texts.emplace_back();
    while (text.size() < kSize) text += unit;
  }
  std::string& letters = texts.emplace_back();  // one piece, whose merges come in random order
  while (letters.size() < kSize) letters.push_back(static_cast<char>('a' + random() % 26));
  std::string& mixed = texts.emplace_back();
  while (mixed.size() < kSize) mixed += units[random() % units.size()];
  for (const std::string& text : texts) {
    const auto begin = std::chrono::steady_clock::now();
    const Ids ids = Encode(SmolLm2(), text, kLossy);
    const std::chrono::duration<double, std::milli> spent =
        std::chrono::steady_clock::now() - begin;
    std::cout << "1 MB of " << absl::CHexEscape(text.substr(0, 16)) << "...: " << ids.size()
              << " tokens in " << spent.count() << " ms\n";
    std::string expected = text;
    std::erase(expected, '\xFE');  // SmolLM2 has no token for this byte
    std::string back;
    for (const int32_t id : ids) absl::StrAppend(&back, SmolLm2().TokenBytes(id));
    EXPECT_TRUE(back == expected) << text.substr(0, 16);
  }
}

TEST(Tokenizer, ThreadsShareOne) {
  const std::string text = "Many threads, one tokenizer: 12 naïve 🚀";
  const Ids expected = Encode(SmolLm2(), text, kPlain);
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int round = 0; round < 200; ++round) {
        EXPECT_EQ(Encode(SmolLm2(), text, kPlain), expected);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(Tokenizer, UserDefinedLiteralsAreAlwaysRecognised) {
  const auto tokenizer = Load(Small("gpt-2"));
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_THAT(Encode(**tokenizer, "a<u>b", kPlain), ElementsAre(0, 6, 1));
  EXPECT_THAT(Encode(**tokenizer, "a<s>b", kPlain), ElementsAre(0, 7, 7, 7, 1));  // three unknown
  EXPECT_THAT(Encode(**tokenizer, "a<s>b<unk>", kParse), ElementsAre(0, 4, 1, 7));
  EXPECT_EQ((*tokenizer)->Decode(Ids{4, 6, 7, 3}, true), "<u>ab");
  EXPECT_EQ((*tokenizer)->Decode(Ids{4, 6, 7, 3}, false), "<s><u><unk>ab");
}

TEST(Tokenizer, EveryByteHasATokenOrAnErrorThatNamesItAndItsPlace) {
  int refused = 0;
  for (int byte = 0; byte < 256; ++byte) {
    const std::string text = std::string("Hello ") + static_cast<char>(byte) + " world";
    const absl::StatusOr<Ids> ids = SmolLm2().Encode(text, kPlain);
    if (ids.ok()) {
      std::string back;
      for (const int32_t id : *ids) absl::StrAppend(&back, SmolLm2().TokenBytes(id));
      EXPECT_EQ(back, text);
      continue;
    }
    ++refused;
    EXPECT_EQ(ids.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(ids.status().message()),
                HasSubstr(absl::StrFormat("no token for byte 0x%02X at offset 6", byte)));
    EXPECT_EQ(Encode(SmolLm2(), text, kLossy), Encode(SmolLm2(), "Hello  world", kPlain));
  }
  EXPECT_EQ(refused, 21);
  // One of the 21 is the first byte of characters that a client may send.
  EXPECT_THAT(EncodeError(SmolLm2(), "a\U00050000"), HasSubstr("byte 0xF1 at offset 1"));
}

TEST(Tokenizer, TheOffsetOfAByteCountsInTheWholeText) {
  EXPECT_THAT(EncodeError(SmolLm2(), std::string(1000, ' ') + "\x04\x06\x04"),
              HasSubstr("byte 0x04 at offset 1000"));
  const std::string after_special = "<|im_start|>\n<|im_end|>12\x06";
  EXPECT_THAT(std::string(SmolLm2().Encode(after_special, kParse).status().message()),
              HasSubstr("byte 0x06 at offset 25"));
  const std::vector<TextPiece> pieces = {{"<|im_start|>", true}, {"", false}, {"a\x06", false}};
  EXPECT_THAT(std::string(SmolLm2().Encode(pieces, false).status().message()),
              HasSubstr("byte 0x06 at offset 13"));
}

TEST(Tokenizer, TheFirstTokenOfTheUnknownKindStandsForBytesWithoutAToken) {
  const auto unknown = [](const std::vector<int32_t>& kinds) {
    GgufBuilder builder = Scheme("gpt-2");
    builder.Texts("tokenizer.ggml.tokens", {"a", "b", "ab", "<pad>", "<unk>", "<unk2>"})
        .Int32s("tokenizer.ggml.token_type", kinds)
        .Texts("tokenizer.ggml.merges", {"a b"})
        .Uint32("tokenizer.ggml.unknown_token_id", 3);
    return Load(builder);
  };
  const auto one = unknown({1, 1, 1, 3, 2, 2});
  EXPECT_THAT(Encode(**one, "abc", kPlain), ElementsAre(2, 4));
  EXPECT_THAT(Encode(**one, "a\xFF\x01 b", kPlain), ElementsAre(0, 4, 4, 4, 1))
      << "no merge across";
  EXPECT_THAT(Encode(**one, "<unk>", kParse), ElementsAre(4));
  EXPECT_THAT(Encode(**one, "abc", kLossy), ElementsAre(2, 4)) << "nothing has to be left out";
  // A control token does not stand for bytes even if the metadata calls it unknown.
  EXPECT_THAT(EncodeError(**unknown({1, 1, 1, 3, 3, 1}), "abc"),
              HasSubstr("byte 0x63 at offset 2"));
}

TEST(Tokenizer, AByteWithoutATokenMayBePartOfATokenThatIsTakenWhole) {
  GgufBuilder builder = Scheme("llama-bpe");
  builder.Texts("tokenizer.ggml.tokens", {"a", "xyz"}).Texts("tokenizer.ggml.merges", {});
  const auto tokenizer = Load(builder);
  EXPECT_THAT(Encode(**tokenizer, "xyz", kPlain), ElementsAre(1));
  EXPECT_THAT(EncodeError(**tokenizer, "a xyz"), HasSubstr("byte 0x20 at offset 1"));
}

TEST(Tokenizer, OnlyLlamaBpeTakesAPieceThatIsATokenWhole) {
  EXPECT_THAT(Encode(**Load(Small("llama-bpe")), "abb", kPlain), ElementsAre(9));
  EXPECT_THAT(Encode(**Load(Small("qwen2")), "abb", kPlain), ElementsAre(3, 1));
}

TEST(Tokenizer, AddsBosAndEosWhereFileOrSchemeSaySo) {
  const auto with_ids = [](const std::string& pre) {
    return Small(pre)
        .Uint32("tokenizer.ggml.bos_token_id", 4)
        .Uint32("tokenizer.ggml.eos_token_id", 5);
  };
  const auto encode = [](const GgufBuilder& builder) {
    return Encode(**Load(builder), "ab", EncodeOptions{});
  };
  EXPECT_THAT(encode(with_ids("gpt-2")), ElementsAre(3));
  EXPECT_THAT(encode(with_ids("llama-bpe")), ElementsAre(4, 3));
  EXPECT_THAT(encode(Small("llama-bpe")), ElementsAre(3));
  EXPECT_THAT(encode(with_ids("llama-bpe").Bool("tokenizer.ggml.add_bos_token", false)),
              ElementsAre(3));
  const GgufBuilder both = with_ids("gpt-2")
                               .Bool("tokenizer.ggml.add_bos_token", true)
                               .Bool("tokenizer.ggml.add_eos_token", true);
  EXPECT_THAT(encode(both), ElementsAre(4, 3, 5));
  EXPECT_THAT(Encode(**Load(both), "ab", kPlain), ElementsAre(3));
  EXPECT_THAT(Encode(**Load(both), std::vector<TextPiece>{{"ab", false}}, true),
              ElementsAre(4, 3, 5));
}

TEST(Tokenizer, GenerationEndsAtTheFilesIdsAndAtEndOfTurnLiterals) {
  const auto literals_only = Load(Small("gpt-2"));
  EXPECT_THAT((*literals_only)->end_of_generation_ids(), ElementsAre(5, 8));
  EXPECT_EQ((*literals_only)->eos_id(), std::nullopt);
  const auto more = Load(Small("gpt-2")
                             .Uint32("tokenizer.ggml.eos_token_id", 8)
                             .Uint32("tokenizer.ggml.eot_token_id", 4)
                             .Uint32("tokenizer.ggml.eom_token_id", 7));
  EXPECT_THAT((*more)->end_of_generation_ids(), ElementsAre(4, 5, 7, 8));
}

TEST(Tokenizer, GenerationEndsAtEveryIdOfAListOfTheFile) {
  const auto ends = [](const std::vector<int32_t>& ids) {
    return Load(Small("gpt-2").Int32s("tokenizer.ggml.eos_token_ids", ids));
  };
  const auto more = ends({0, 1, 2, 3, 7});
  ASSERT_TRUE(more.ok()) << more.status();
  EXPECT_THAT((*more)->end_of_generation_ids(), ElementsAre(0, 1, 2, 3, 5, 7, 8));
  EXPECT_THAT(std::string(ends({1, -1}).status().message()),
              HasSubstr("tokenizer.ggml.eos_token_ids[1] is -1, but the vocabulary has"));
  EXPECT_THAT(std::string(ends({99}).status().message()),
              HasSubstr("tokenizer.ggml.eos_token_ids[0] is 99, but the vocabulary has"));
}

TEST(Tokenizer, DigestTellsVocabulariesApart) {
  const auto one = Load(Small("gpt-2"));
  const auto same = Load(Small("gpt-2"));
  const auto other = Load(Small("qwen2"));
  EXPECT_EQ((*one)->digest(), (*same)->digest());
  EXPECT_NE((*one)->digest(), (*other)->digest());
}

}  // namespace
}  // namespace baton
