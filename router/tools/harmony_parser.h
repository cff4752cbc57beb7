// The answers of gpt-oss: messages in channels.
//
// <|channel|>analysis<|message|>...<|end|><|start|>assistant<|channel|>commentary
// to=functions.NAME <|constrain|>json<|message|>{...}<|call|>, and <|channel|>final<|message|>...
// The format: https://cookbook.openai.com/articles/openai-harmony
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"

#include "router/tools/answer_parts.h"
#include "router/tools/tool_form.h"

namespace baton {

// Bytes of a message's header; what is longer is text.
inline constexpr size_t kMaxHarmonyHeaderBytes = 512;

// The control tokens that the parser looks for.
std::vector<std::string> HarmonyMarkers();

// The analysis channel is reasoning, a message to a function a call, everything else text. An
// answer that begins with no header is text up to the first marker. Not thread-safe.
class HarmonyParser : public AnswerParser {
 public:
  // Without `has_tools` a message to a function is text, header and all. With `single_call` the
  // calls behind the first one are left out.
  HarmonyParser(bool has_tools, uint64_t seed, int choice, bool single_call = false)
      : has_tools_(has_tools), seed_(seed), choice_(choice), parts_(single_call) {}

  std::vector<AnswerPart> Add(absl::string_view text) override;
  std::vector<AnswerPart> Finish() override;

 private:
  enum class State {
    kBegin,   // at the answer's begin
    kHeader,  // up to <|message|>
    kBody,
    kBetween,  // behind a message, before the next one's header
  };
  absl::string_view Rest() const { return absl::string_view(held_).substr(at_); }
  bool Step();
  bool StepBegin();
  bool StepHeader();
  bool StepBody();
  void BeginMessage(absl::string_view header);
  void AddBody(absl::string_view text);
  void EndMessage();

  const bool has_tools_;
  const uint64_t seed_;
  const int choice_;
  State state_ = State::kBegin;
  AnswerPart::Kind kind_ = AnswerPart::Kind::kText;  // kind of the body
  bool has_body_ = false;
  int calls_ = 0;
  std::string held_;
  size_t at_ = 0;  // bytes of held_ that are done
  AnswerParts parts_;
};

}  // namespace baton
