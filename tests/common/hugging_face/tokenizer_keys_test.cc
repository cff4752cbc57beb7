// The tokenizers of folders, and those of the GGUF files with the same vocabularies, against the
// reference's ids (tests/data/README.md).
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "common/hugging_face/open_model_file.h"
#include "common/tokenizer/tokenizer.h"

namespace baton {
namespace {

using Ids = std::vector<int32_t>;

std::string ReferencePath(const std::string& name) { return BATON_TEST_DATA "/arch/" + name; }

Ids Encode(const Tokenizer& tokenizer, const std::string& text) {
  const auto ids = tokenizer.Encode(text, {.add_special_tokens = false, .parse_special = true});
  EXPECT_TRUE(ids.ok()) << ids.status();
  return ids.value_or(Ids{});
}

struct TokenizerCase {
  std::string name;
  std::string twin;
  // A string with a character in two code points, which the folder's normaliser makes one of and
  // GGUF, which has no normaliser, does not; and its ids there.
  std::string two_code_points = "";
  Ids twin_ids = {};
};

void ExpectTheReferencesIds(const TokenizerCase& model) {
  SCOPED_TRACE(model.name);
  const auto folder =
      Tokenizer::Load(*OpenModelFile(ReferencePath(model.name), GgufFile::Part::kTokenizer));
  const auto twin = Tokenizer::Load(*OpenModelFile(ReferencePath(model.twin)));
  ASSERT_TRUE(folder.ok()) << folder.status();
  ASSERT_TRUE(twin.ok()) << twin.status();
  std::ifstream in(ReferencePath(model.name + ".json"));
  const auto strings = nlohmann::json::parse(in).at("tokenizer");
  EXPECT_EQ(strings.size(), 12u);
  for (const auto& string : strings) {
    const std::string text = string.at("text");
    const Ids ids = string.at("ids");
    EXPECT_EQ(Encode(**folder, text), ids) << text;
    if (text == model.two_code_points) {
      EXPECT_EQ(Encode(**twin, text), model.twin_ids);
      continue;
    }
    EXPECT_EQ(Encode(**twin, text), ids) << text;
    EXPECT_EQ((*folder)->Decode(ids, /*skip_special_tokens=*/false), text);
  }
}

TEST(TokenizerKeys, FoldersAndTheirTwinsEncodeLikeTheReference) {
  ExpectTheReferencesIds({"llama-hf", "llama-hf-twin-f16.gguf"});
  ExpectTheReferencesIds(
      {.name = "qwen3-hf",
       .twin = "qwen3-hf-twin-f32.gguf",
       .two_code_points = "na\u00efve caf\u00e9 e\u0301",
       .twin_ids = {113, 100, 198, 178, 121, 104, 35, 102, 100, 105, 198, 172, 35, 104, 207, 132}});
}

}  // namespace
}  // namespace baton
