// The JSON that the answers of OpenAI's two APIs have in common. Pure functions and small values.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include <nlohmann/json.hpp>

#include "baton/v1/generation.pb.h"
#include "router/openai/common_fields.h"

namespace baton {

struct AnswerOptions {
  std::string id{};     // such as "chatcmpl-...": the same in all of an answer
  std::string model{};  // model name in the answer
  int64_t created = 0;  // Unix seconds
  StreamFields stream{};
  uint32_t choices = 1;           // choices of each prompt
  bool logprobs = false;          // whether tokens have log probabilities
  bool return_timings = false;    // Baton's addition: each choice's "timings"
  bool return_token_ids = false;  // vLLM's addition: each choice's "token_ids"
};

// The decimal number with the fewest digits that reads as this float: the number printed for it is
// the same wherever it stands. -9999 for what JSON has no number for, as vLLM prints it.
double JsonFloat(float value);

// A token's text: as it is where it is UTF-8; else "bytes:\xe2\x80", as OpenAI writes the pieces of
// a character.
std::string TokenText(absl::string_view bytes);

// REQUIRES: the choice has ended by itself, as every complete has.
const char* FinishReasonName(v1::FinishReason reason);
// The stop string or token id that ended the choice, else null; vLLM's stop_reason.
nlohmann::ordered_json StopReason(const v1::GenerateComplete& complete);

// The usage of an answer, which is the sum over its prompts.
class UsageSum {
 public:
  explicit UsageSum(size_t prompts) : prompts_(prompts) {}
  // Begins a prompt of `prompt_tokens` tokens; its usage is not known yet.
  void Begin(uint32_t prompt_tokens);
  // Counts `tokens` further tokens.
  void Count(int tokens) { running_ += static_cast<uint64_t>(tokens); }
  // The usage of a prompt that has ended.
  void Add(const v1::Usage& usage);

  // Number of reasoning tokens, if it is known.
  void AddReasoning(uint64_t tokens) { reasoning_ = reasoning_.value_or(0) + tokens; }

  nlohmann::ordered_json ToJson() const;
  // What was counted until now; null while it is not known of all prompts how long they are.
  nlohmann::ordered_json RunningJson() const;

 private:
  const size_t prompts_;
  size_t begun_ = 0;
  uint64_t begun_tokens_ = 0;
  uint64_t running_ = 0;
  uint64_t prompt_tokens_ = 0;
  uint64_t completion_tokens_ = 0;
  uint64_t cached_tokens_ = 0;
  uint64_t accepted_ = 0;
  uint64_t rejected_ = 0;
  std::optional<uint64_t> reasoning_{};
};

// In milliseconds; what was not measured is absent.
nlohmann::ordered_json TimingsJson(const v1::RequestTimings& timings);

// Adds the fields of a choice's end besides its finish_reason to `choice`.
void AddEnd(const v1::GenerateComplete& complete, const AnswerOptions& options,
            nlohmann::ordered_json& choice);

// Adds the system fingerprint of a choice to those of the answer, `all`, which are separated by
// commas. Does nothing if it is there already.
void AddFingerprint(const std::string& fingerprint, std::string& all);

// Writes the events of a stream, which differ in their choices alone.
class EventWriter {
 public:
  // `object`: such as "chat.completion.chunk".
  EventWriter(const AnswerOptions& options, const char* object);

  // An event with one choice. `usage`: its usage, if continuous usage was requested.
  // `fingerprint`: the system_fingerprint, which is known when the choice ends; empty: left out.
  void Choice(const nlohmann::ordered_json& choice, const UsageSum& usage,
              const std::string& fingerprint, std::string& out) const;
  // The same for a choice that has more text and nothing else, as most have: the JSON string `text`
  // between `before` and `after`, without the objects that JSON is made of.
  void TextChoice(size_t index, absl::string_view before, const std::string& text,
                  absl::string_view after, const UsageSum& usage, std::string& out) const;
  // The last events: the usage, if it was asked, and "[DONE]".
  void End(const UsageSum& usage, const std::string& fingerprint, std::string& out) const;

 private:
  void EndChoice(const UsageSum& usage, const std::string& fingerprint, std::string& out) const;

  std::string head_;  // beginning of an event, up to its choices
  const StreamFields stream_;
};

// The event that reports a broken stream.
void AppendErrorEvent(const ApiError& error, std::string& out);

// The whole answer: `choices` in order.
std::string WholeAnswer(const AnswerOptions& options, const char* object,
                        nlohmann::ordered_json choices, const UsageSum& usage,
                        const std::string& fingerprint);

}  // namespace baton
