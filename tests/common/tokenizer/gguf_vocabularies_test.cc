// The strings with which llama.cpp checks its tokenizers, under the vocabularies of real models.
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "common/tokenizer/tokenizer.h"
#include "tests/common/tokenizer/small_vocabulary.h"

namespace baton {
namespace {

using Ids = std::vector<int32_t>;

TEST(GgufVocabularies, EncodeLikeTheModelsOwnTokenizers) {
  std::ifstream file(std::string(BATON_TEST_DATA) + "/tokenizer/gguf_vocabularies.jsonl");
  int vocabularies = 0;
  for (std::string line; std::getline(file, line); ++vocabularies) {
    const nlohmann::json part = nlohmann::json::parse(line);
    GgufBuilder builder;
    builder.Text("tokenizer.ggml.model", part["model"])
        .Texts("tokenizer.ggml.tokens", part["tokens"].get<std::vector<std::string>>())
        .Int32s("tokenizer.ggml.token_type", part["types"].get<Ids>());
    if (part.contains("pre")) {
      builder.Text("tokenizer.ggml.pre", part["pre"])
          .Texts("tokenizer.ggml.merges", part["merges"].get<std::vector<std::string>>());
    } else {
      builder.Array("tokenizer.ggml.scores", 6, part["scores"].get<std::vector<float>>());
    }
    const auto tokenizer = Load(builder);
    ASSERT_TRUE(tokenizer.ok()) << part["name"] << tokenizer.status();
    for (const nlohmann::json& vector : part["vectors"]) {
      const std::string text = vector["text"];
      const auto ids = (*tokenizer)->Encode(text, {.add_special_tokens = false});
      ASSERT_TRUE(ids.ok()) << part["name"] << ids.status();
      EXPECT_EQ(*ids, vector["ids"].get<Ids>()) << part["name"] << ": " << text;
      EXPECT_EQ((*tokenizer)->Decode(*ids, false), text);
    }
  }
  EXPECT_EQ(vocabularies, 12);
}

}  // namespace
}  // namespace baton
