// Texts under "tokenizer.huggingface.json" that are no tokenizer, one that is not supported, or a
// damaged one.
#include <random>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "common/tokenizer/tokenizer.h"
#include "tests/common/tokenizer/json_vocabulary.h"

namespace baton {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

std::string LoadError(const Json& tokenizer) {
  return std::string(LoadJson(tokenizer).status().message());
}

// The tokenizer with `value` at `path` (a JSON pointer).
Json With(Json tokenizer, const std::string& path, const Json& value) {
  tokenizer[Json::json_pointer(path)] = value;
  return tokenizer;
}

TEST(JsonTokenizerLoad, RefusesByNameWhatIsNotSupported) {
  const auto error = [](const std::string& path, const Json& value) {
    const auto loaded = LoadJson(With(ByteLevelJson(), path, value));
    EXPECT_EQ(loaded.status().code(), absl::StatusCode::kUnimplemented) << path;
    EXPECT_THAT(std::string(loaded.status().message()),
                HasSubstr("made.gguf: tokenizer.huggingface.json: "));
    return std::string(loaded.status().message());
  };
  for (const char* type : {"Unigram", "WordPiece", "WordLevel"}) {
    EXPECT_THAT(error("/model/type", type), HasSubstr(type));
  }
  EXPECT_THAT(error("/model/dropout", 0.1), HasSubstr("model.dropout"));
  EXPECT_THAT(error("/model/end_of_word_suffix", "</w>"), HasSubstr("end_of_word_suffix"));
  EXPECT_THAT(error("/normalizer", {{"type", "NFKC"}}),
              HasSubstr("normalizer: the normalizer \"NFKC\""));
  EXPECT_THAT(error("/normalizer", {{"type", "Prepend"}, {"prepend", "x"}}), HasSubstr("prepend"));
  EXPECT_THAT(error("/pre_tokenizer", {{"type", "BertPreTokenizer"}}),
              HasSubstr("BertPreTokenizer"));
  EXPECT_THAT(error("/pre_tokenizer/pretokenizers/1/add_prefix_space", true),
              HasSubstr("pre_tokenizer.pretokenizers[1]: add_prefix_space"));
  EXPECT_THAT(error("/pre_tokenizer/pretokenizers/0/behavior", "Odd"), HasSubstr("\"Odd\""));
  EXPECT_THAT(error("/pre_tokenizer/pretokenizers/0/pattern/Regex", R"(\w+)"), HasSubstr(R"(\\w)"));
  EXPECT_THAT(error("/pre_tokenizer/pretokenizers/2", {{"type", "Split"}}),
              HasSubstr("after ByteLevel"));
  EXPECT_THAT(error("/decoder", {{"type", "WordPiece"}}), HasSubstr("decoder \"WordPiece\""));
  EXPECT_THAT(error("/post_processor", {{"type", "RobertaProcessing"}}),
              HasSubstr("RobertaProcessing"));
  EXPECT_THAT(error("/post_processor", TemplateJson({"<s>", "<u>", ""}, 6)),
              HasSubstr("post_processor.single[1]"));
}

TEST(JsonTokenizerLoad, NamesTheFieldAndEntryThatIsWrong) {
  const auto error = [](const std::string& path, const Json& value) {
    return LoadError(With(ByteLevelJson(), path, value));
  };
  EXPECT_THAT(error("/model/vocab/a", -1), HasSubstr("model.vocab[\"a\"]: token id -1"));
  EXPECT_THAT(error("/model/vocab/a", 1 << 20), HasSubstr("token id 1048576; 0 to 1048575"));
  EXPECT_THAT(error("/model/vocab/a", "x"), HasSubstr("model.vocab[\"a\"] is not an integer"));
  EXPECT_THAT(error("/model/vocab/a", 1), HasSubstr("token id 1 is already used by"));
  EXPECT_THAT(error("/model/vocab", 1), HasSubstr("model.vocab"));
  EXPECT_THAT(error("/model/vocab", Json::object()),
              HasSubstr("model.merges[0] has a part or a result"));
  EXPECT_THAT(error("/model/merges/0", "ab"), HasSubstr("model.merges[0] is not a pair"));
  EXPECT_THAT(error("/model/merges/0", "b a"), HasSubstr("model.merges[0] has a part or a result"));
  EXPECT_THAT(error("/model/merges", "x"), HasSubstr("\"merges\""));
  EXPECT_THAT(error("/model/unk_token", "zz"),
              HasSubstr("model.unk_token \"zz\" is not in the vocabulary"));
  EXPECT_THAT(error("/model/ignore_merges", 3), HasSubstr("\"ignore_merges\""));
  EXPECT_THAT(error("/added_tokens/0/id", 7.5), HasSubstr("added_tokens[0]: \"id\""));
  EXPECT_THAT(error("/added_tokens/0/content", std::string(1025, 'x')), HasSubstr("1025 bytes"));
  EXPECT_THAT(error("/added_tokens/1/id", 6), HasSubstr("added_tokens[1]: token id 6"));
  EXPECT_THAT(error("/pre_tokenizer/pretokenizers/0/pattern", 1),
              HasSubstr("pretokenizers[0].pattern"));
  EXPECT_THAT(error("/pre_tokenizer/pretokenizers/0/pattern/Regex", "("),
              HasSubstr("cannot be compiled"));
  EXPECT_THAT(error("/post_processor", TemplateJson({"<s>", ""}, 99)), HasSubstr("token id 99"));
  EXPECT_THAT(LoadError(Json::array()), HasSubstr("is not a JSON object"));
  EXPECT_THAT(LoadError("text"), HasSubstr("is not a JSON object"));
  EXPECT_THAT(LoadError(Json::object()), HasSubstr("\"type\" is missing"));
  Json deep = ByteLevelJson()["pre_tokenizer"];
  for (int i = 0; i < 6; ++i) deep = {{"type", "Sequence"}, {"pretokenizers", Json::array({deep})}};
  EXPECT_THAT(error("/pre_tokenizer", deep), HasSubstr("this deep"));
}

TEST(JsonTokenizerLoad, SurvivesRandomDamage) {
  std::mt19937 random(7);
  int loaded = 0;
  for (const Json& whole : {ByteLevelJson(), CharacterJson()}) {
    const std::string text = whole.dump();
    for (int round = 0; round < 3'000; ++round) {
      std::string bytes = text;
      for (size_t changes = 1 + random() % 3; changes > 0; --changes) {
        bytes[random() % bytes.size()] = static_cast<char>(32 + random() % 95);
      }
      const auto tokenizer = Load(GgufBuilder().Text("tokenizer.huggingface.json", bytes));
      if (!tokenizer.ok()) continue;
      ++loaded;
      const auto ids =
          (*tokenizer)->Encode("abb <s>a b\xFF<u>é", {.parse_special = true, .lossy = true});
      if (ids.ok()) (*tokenizer)->Decode(*ids, true);
    }
  }
  EXPECT_GT(loaded, 100);
}

}  // namespace
}  // namespace baton
