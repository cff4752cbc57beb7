#include "common/tokenizer/end_of_generation.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<int32_t> Ends(const std::vector<absl::string_view>& texts, TokenKind kind) {
  const std::vector<int64_t> kinds(texts.size(), static_cast<int64_t>(kind));
  const auto vocabulary = Vocabulary::Create(texts, kinds);
  EXPECT_TRUE(vocabulary.ok()) << vocabulary.status();
  std::vector<int32_t> ends;
  AppendKnownEnds(*vocabulary, ends);
  return ends;
}

TEST(EndOfGeneration, TheEndsOfEachFormatAreFound) {
  const std::vector<std::vector<absl::string_view>> formats = {
      {"<|im_end|>", "<|endoftext|>", "<|fim_pad|>", "<|repo_name|>", "<|file_sep|>"},  // Qwen
      {"<|eot_id|>", "<|eom_id|>", "<|end_of_text|>"},                                  // Llama 3
      {"<end_of_turn>", "<eos>"},                                                       // Gemma 3
      {"<turn|>", "<|tool_response>", "<eos>"},                                         // Gemma 4
      {"<｜end▁of▁sentence｜>", "<EOT>"},                                               // DeepSeek
      {"[EOS]", "[EOT]", "[PAD]"},                                                      // Kimi K2
      {"<|end_of_text|>", "<reponame>", "<fim_pad>"},                                   // Granite
      {"<end_of_utterance>", "[e~[", "</s>"}};
  for (const auto& format : formats) {
    EXPECT_EQ(Ends(format, TokenKind::kControl).size(), format.size()) << format[0];
  }
}

TEST(EndOfGeneration, OnlyControlTokensEnd) {
  EXPECT_THAT(Ends({"</s>", "<|im_end|>", "<|end|>"}, TokenKind::kUserDefined), IsEmpty());
  EXPECT_THAT(Ends({"<|im_start|>", "<s>", "[INST]"}, TokenKind::kControl), IsEmpty());
}

TEST(EndOfGeneration, WhereCallsHaveEndsOfTheirOwnAMessageIsNoEnd) {
  EXPECT_THAT(Ends({"<|end|>", "<|return|>", "<|call|>"}, TokenKind::kControl), ElementsAre(1, 2));
  EXPECT_THAT(Ends({"<|end|>", "<|flush|>", "<|calls|>"}, TokenKind::kControl), ElementsAre(1, 2));
  EXPECT_THAT(Ends({"<|end|>", "<|flush|>"}, TokenKind::kControl), ElementsAre(1, 0));
}

}  // namespace
}  // namespace baton
