#include "common/tokenizer/end_of_generation.h"

#include <optional>

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"

namespace baton {
namespace {

constexpr absl::string_view kEndOfMessage = "<|end|>";

constexpr absl::string_view kEnds[] = {
    // ends of a turn or a text
    "<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|endoftext|>", "<|end_of_text|>", "<end_of_turn>",
    "</s>", "<eos>", "[EOS]", "<EOT>", "_<EOT>", "[EOT]", "<end_of_utterance>", "<turn|>",
    "<|tool_response>", "<｜end▁of▁sentence｜>", "[e~[",
    // ends of an answer or a call, in formats whose messages end with <|end|>
    "<|return|>", "<|call|>", "<|flush|>", "<|calls|>",
    // ends of a file, in code completion
    "<|fim_pad|>", "<fim-pad>", "<fim_pad>", "<PAD>", "[PAD]", "<|fim_repo|>", "<|repo_name|>",
    "<fim-repo>", "<REPO>", "<reponame>", "<|file_sep|>"};

}  // namespace

void AppendKnownEnds(const Vocabulary& vocabulary, std::vector<int32_t>& ends) {
  std::optional<int32_t> end_of_message;
  int harmony = 0;  // ends of answers and calls in OpenAI's harmony format
  int solar = 0;    // likewise in Solar's
  for (int32_t id = 0; id < vocabulary.size(); ++id) {
    if (vocabulary.kind(id) != TokenKind::kControl) continue;
    const absl::string_view literal = vocabulary.bytes(id);
    if (literal == kEndOfMessage) end_of_message = id;
    if (!absl::c_linear_search(kEnds, literal)) continue;
    harmony += literal == "<|return|>" || literal == "<|call|>";
    solar += literal == "<|flush|>" || literal == "<|calls|>";
    ends.push_back(id);
  }
  // In those two formats <|end|> ends one of several messages of an answer.
  if (end_of_message.has_value() && harmony < 2 && solar < 2) ends.push_back(*end_of_message);
}

}  // namespace baton
