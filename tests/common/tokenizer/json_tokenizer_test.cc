#include "common/tokenizer/json_tokenizer.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "common/tokenizer/tokenizer.h"
#include "tests/common/tokenizer/encode_options.h"
#include "tests/common/tokenizer/json_vocabulary.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using Ids = std::vector<int32_t>;

Ids Encode(const nlohmann::json& json, const std::string& text, const EncodeOptions& options) {
  const auto tokenizer = LoadJson(json);
  EXPECT_TRUE(tokenizer.ok()) << tokenizer.status();
  if (!tokenizer.ok()) return {};
  const auto ids = (*tokenizer)->Encode(text, options);
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.value_or(Ids{});
}

TEST(JsonTokenizer, MergesBytesInsideThePiecesOfItsExpression) {
  const nlohmann::json json = ByteLevelJson();
  EXPECT_THAT(Encode(json, "ab b", kPlain), ElementsAre(3, 2, 1));
  EXPECT_THAT(Encode(json, "aabb", kPlain), ElementsAre(0, 3, 1));
  nlohmann::json split = json;
  split["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"Regex", "a"}};
  EXPECT_THAT(Encode(split, "ab", kPlain), ElementsAre(0, 1));
  split["pre_tokenizer"]["pretokenizers"][0]["pattern"] = {{"String", "."}};
  EXPECT_THAT(Encode(split, "ab", kPlain), ElementsAre(3));
}

TEST(JsonTokenizer, TakesAPieceThatIsATokenWholeWhereMergesAreIgnored) {
  nlohmann::json json = ByteLevelJson();
  EXPECT_THAT(Encode(json, "abb", kPlain), ElementsAre(3, 1));
  json["model"]["ignore_merges"] = true;
  EXPECT_THAT(Encode(json, "abb", kPlain), ElementsAre(4));
}

TEST(JsonTokenizer, KnowsHowManyBytesOfATextATokenMayComeFrom) {
  const auto most = [](const nlohmann::json& json) {
    return (*LoadJson(json))->max_bytes_of_token();
  };
  nlohmann::json bytes = ByteLevelJson();
  EXPECT_EQ(most(bytes), 4u) << "no token is longer than a character may be";
  bytes["normalizer"] = {{"type", "NFC"}};
  EXPECT_EQ(most(bytes), 16u);
  nlohmann::json removes = bytes;
  removes["pre_tokenizer"]["pretokenizers"][0]["behavior"] = "Removed";
  EXPECT_EQ(most(removes), std::nullopt);
  bytes["added_tokens"][0]["lstrip"] = true;
  EXPECT_EQ(most(bytes), std::nullopt) << "it takes any number of spaces";
  nlohmann::json characters = CharacterJson();
  EXPECT_EQ(most(characters), std::nullopt) << "unknown characters are one token";
  characters["model"]["fuse_unk"] = false;
  EXPECT_EQ(most(characters), 15u) << "a token has 5 bytes, and spaces may have 3";
}

TEST(JsonTokenizer, MergesMayBeStringsOrPairs) {
  nlohmann::json json = ByteLevelJson();
  json["model"]["merges"] = nlohmann::json::array({{"a", "b"}});
  EXPECT_THAT(Encode(json, "ab", kPlain), ElementsAre(3));
}

TEST(JsonTokenizer, NormalFormCComesBeforeThePieces) {
  nlohmann::json json = ByteLevelJson();
  // U+212A, the sign for kelvin, is U+004B in normal form C.
  EXPECT_FALSE((*LoadJson(json))->Encode("\u212A", kPlain).ok());
  json["normalizer"] = {{"type", "NFC"}};
  EXPECT_THAT(Encode(json, "\u212A", kPlain), ElementsAre(5));
  json["normalizer"] = {{"type", "Sequence"}, {"normalizers", {{{"type", "NFC"}}}}};
  EXPECT_THAT(Encode(json, "\u212A", kPlain), ElementsAre(5));
}

TEST(JsonTokenizer, LiteralsOfSpecialTokensCountInTrustedTextAndOthersAlways) {
  const nlohmann::json json = ByteLevelJson();
  EXPECT_THAT(Encode(json, "a<s>a", kParse), ElementsAre(0, 6, 0));
  EXPECT_FALSE((*LoadJson(json))->Encode("<s>", kPlain).ok()) << "there are no tokens of < and >";
  EXPECT_THAT(Encode(json, "a<u>b", kPlain), ElementsAre(0, 7, 1));
  const auto tokenizer = LoadJson(json);
  EXPECT_TRUE((*tokenizer)->IsSpecial(6));
  EXPECT_FALSE((*tokenizer)->IsSpecial(7));
  EXPECT_EQ((*tokenizer)->Decode(Ids{6, 0, 7, 1}, true), "a<u>b");
}

TEST(JsonTokenizer, ALiteralTakesTheSpaceBesideItWhereItsFlagsSaySo) {
  nlohmann::json json = ByteLevelJson();
  json["added_tokens"][1]["lstrip"] = true;
  EXPECT_THAT(Encode(json, "a  <u> b", kPlain), ElementsAre(0, 7, 2, 1));
  json["added_tokens"][1]["lstrip"] = false;
  json["added_tokens"][1]["rstrip"] = true;
  EXPECT_THAT(Encode(json, "a <u>  b", kPlain), ElementsAre(0, 2, 7, 1));
  // Two that share a space: the first has it.
  json["added_tokens"][1]["lstrip"] = true;
  EXPECT_THAT(Encode(json, "<u> <u>", kPlain), ElementsAre(7, 7));
  // A literal in that space counts too.
  json["added_tokens"][0] = {{"id", 6}, {"content", "  "}};
  EXPECT_THAT(Encode(json, "<u>  a", kPlain), ElementsAre(7, 6, 0));
}

TEST(JsonTokenizer, ALiteralOfASingleWordCountsBetweenOtherThanWordsOnly) {
  nlohmann::json json = ByteLevelJson();
  json["added_tokens"][1] = {{"id", 7}, {"content", "bb"}, {"single_word", true}};
  EXPECT_THAT(Encode(json, "bb", kPlain), ElementsAre(7));
  EXPECT_THAT(Encode(json, "a bb ", kPlain), ElementsAre(0, 2, 7, 2));
  EXPECT_THAT(Encode(json, "abb", kPlain), ElementsAre(3, 1));
  EXPECT_THAT(Encode(json, "bba", kPlain), ElementsAre(1, 1, 0));
}

TEST(JsonTokenizer, ThePostProcessorSaysWhetherThereAreBosAndEos) {
  nlohmann::json json = ByteLevelJson();
  EXPECT_THAT(Encode(json, "a", EncodeOptions{}), ElementsAre(0));
  json["post_processor"] = TemplateJson({"<s>", "", "<s>"}, 6);
  EXPECT_THAT(Encode(json, "a", EncodeOptions{}), ElementsAre(6, 0, 6));
  json["post_processor"] = TemplateJson({"<s>", ""}, 6);
  EXPECT_THAT(Encode(json, "a", EncodeOptions{}), ElementsAre(6, 0));
  EXPECT_EQ((*LoadJson(json))->bos_id(), 6);
  GgufBuilder keys;
  keys.Bool("tokenizer.ggml.add_bos_token", false);
  EXPECT_THAT(*(*LoadJson(json, keys))->Encode("a", EncodeOptions{}), ElementsAre(0));
}

TEST(JsonTokenizer, TheMetadataNamesBosEosAndTheChatTemplate) {
  GgufBuilder keys;
  keys.Uint32("tokenizer.ggml.bos_token_id", 6)
      .Uint32("tokenizer.ggml.eos_token_id", 7)
      .Text("tokenizer.chat_template", "{{ x }}")
      .Text("tokenizer.chat_template.tool_use", "{{ y }}");
  const auto tokenizer = LoadJson(ByteLevelJson(), keys);
  ASSERT_TRUE(tokenizer.ok()) << tokenizer.status();
  EXPECT_EQ((*tokenizer)->bos_id(), 6);
  EXPECT_EQ((*tokenizer)->eos_id(), 7);
  EXPECT_THAT((*tokenizer)->end_of_generation_ids(), ElementsAre(7));
  EXPECT_EQ((*tokenizer)->chat_template(), "{{ x }}");
  EXPECT_EQ((*tokenizer)->tool_chat_template(), "{{ y }}");
}

TEST(JsonTokenizer, HasAsManyTokensAsTheModel) {
  const auto sized = [](uint32_t size) {
    GgufBuilder keys;
    keys.Text("general.architecture", "llama").Uint32("llama.vocab_size", size);
    return *LoadJson(ByteLevelJson(), keys);
  };
  EXPECT_EQ(sized(8)->vocab_size(), 8);
  const auto padded = sized(12);
  EXPECT_EQ(padded->vocab_size(), 12);
  EXPECT_EQ(padded->TokenBytes(11), "");
  EXPECT_NE(padded->digest(), sized(13)->digest());
  EXPECT_EQ(padded->digest(), sized(12)->digest());
}

TEST(JsonTokenizer, AddedTokensBeyondTheModelsRowsAreText) {
  GgufBuilder keys;
  keys.Text("general.architecture", "gemma3").Uint32("gemma3.vocab_size", 7);
  nlohmann::json json = ByteLevelJson();
  // Behind a gap, as an image's token may be, and with a rule of its own.
  json["added_tokens"].push_back({{"id", 12}, {"content", "ba"}, {"lstrip", true}});
  const auto cut = LoadJson(json, keys);
  ASSERT_TRUE(cut.ok()) << cut.status();
  EXPECT_EQ((*cut)->vocab_size(), 7);
  EXPECT_THAT(*(*cut)->Encode("ab ba<s>", kParse), ElementsAre(3, 2, 1, 0, 6));
  EXPECT_FALSE((*cut)->Encode("<u>", kParse).ok()) << "there are no tokens of < and >";
  GgufBuilder one_more;
  one_more.Text("general.architecture", "gemma3").Uint32("gemma3.vocab_size", 13);
  EXPECT_THAT(*(*LoadJson(json, one_more))->Encode("ab ba", kParse), ElementsAre(3, 12));
}

TEST(JsonTokenizer, TokensOfTextBeyondTheModelsRowsAreRefusedWithBothCounts) {
  GgufBuilder keys;
  keys.Text("general.architecture", "llama").Uint32("llama.vocab_size", 5);
  EXPECT_THAT(std::string(LoadJson(ByteLevelJson(), keys).status().message()),
              HasSubstr("made.gguf: tokenizer.huggingface.json: model.vocab with added_tokens has "
                        "8 tokens, but the model's embedding has 5 rows"));
}

TEST(JsonTokenizer, ASpecialTokenBeyondTheModelsRowsEndsNoAnswer) {
  GgufBuilder keys;
  keys.Text("general.architecture", "llama")
      .Uint32("llama.vocab_size", 7)
      .Uint32("tokenizer.ggml.eos_token_id", 7);
  EXPECT_THAT(std::string(LoadJson(ByteLevelJson(), keys).status().message()),
              HasSubstr("tokenizer.ggml.eos_token_id is 7, but the vocabulary has 7 tokens"));
}

TEST(JsonTokenizer, CharactersWithoutATokenBecomeTheirBytes) {
  const nlohmann::json json = CharacterJson();
  EXPECT_THAT(Encode(json, "a a", kPlain), ElementsAre(5, 5)) << "▁a ▁a";
  EXPECT_THAT(Encode(json, "é", kPlain), ElementsAre(4, 6, 7));
  EXPECT_THAT(Encode(json, "aéa", kPlain), ElementsAre(5, 6, 7, 3));
  EXPECT_THAT(Encode(json, "ax-", kPlain), ElementsAre(5, 0)) << "unknown ones in a row are one";
  EXPECT_THAT(Encode(json, "", kPlain), IsEmpty());
  const auto tokenizer = LoadJson(json);
  EXPECT_EQ((*tokenizer)->Decode(Ids{5, 5}, true), "a a");
  EXPECT_EQ((*tokenizer)->TokenBytes(5), " a");
  EXPECT_EQ((*tokenizer)->TokenBytes(6), "\xC3");
  const EncodeOptions continues = {.add_special_tokens = false, .continues = true};
  EXPECT_THAT(Encode(json, "a", continues), ElementsAre(3));
}

TEST(JsonTokenizer, AMetaspacePutsItsSpaceWhereItsSchemeSays) {
  nlohmann::json json = CharacterJson();
  json["normalizer"] = nullptr;
  const auto encode = [&json](const char* scheme, const std::string& text) {
    json["pre_tokenizer"] = {
        {"type", "Metaspace"}, {"replacement", "▁"}, {"prepend_scheme", scheme}, {"split", false}};
    return Encode(json, text, kParse);
  };
  EXPECT_THAT(encode("first", "a</s>a"), ElementsAre(5, 2, 3));
  EXPECT_THAT(encode("first", "</s>a"), ElementsAre(2, 3));
  EXPECT_THAT(encode("always", "a</s>a"), ElementsAre(5, 2, 5));
  EXPECT_THAT(encode("always", " a"), ElementsAre(5));
  EXPECT_THAT(encode("never", "a a"), ElementsAre(3, 5));
}

TEST(JsonTokenizer, AMergeThatMakesTheLiteralOfAnAddedTokenIsNeverNeeded) {
  nlohmann::json json = CharacterJson();
  json["added_tokens"].push_back({{"id", 5}, {"content", "▁a"}});
  EXPECT_TRUE(LoadJson(json).ok());
  json["model"]["merges"].push_back("a zz");
  EXPECT_THAT(std::string(LoadJson(json).status().message()), HasSubstr("model.merges[1]"));
}

}  // namespace
}  // namespace baton
