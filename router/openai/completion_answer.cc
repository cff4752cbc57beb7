#include "router/openai/completion_answer.h"

#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "router/openai/logprobs_json.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

struct CompletionChoice {
  TextOffsets offsets{};
  bool has_prompt = false;  // the log probabilities of the echoed prompt
};

// Chunks and completes have the same fields.
struct TextPart {
  size_t prompt;
  uint32_t choice;
  const std::string& text;
  const TokenLogprobs& logprobs;
  const TokenLogprobs& prompt_logprobs;
  const google::protobuf::RepeatedField<uint32_t>& token_ids;
};

template <typename Message>
TextPart PartOf(size_t prompt, const Message& message) {
  return {.prompt = prompt,
          .choice = message.index(),
          .text = message.text(),
          .logprobs = message.logprobs(),
          .prompt_logprobs = message.prompt_logprobs(),
          .token_ids = message.token_ids()};
}

class CompletionAnswer final : public AnswerFormat {
 public:
  CompletionAnswer(AnswerOptions options, size_t prompts)
      : options_(std::move(options)),
        prompt_logprobs_(prompts),
        choices_(prompts * options_.choices),
        answers_(choices_.size()),
        usage_(prompts),
        events_(options_, "text_completion") {}

  void Begin(size_t /*prompt*/, uint32_t prompt_tokens) override { usage_.Begin(prompt_tokens); }

  void Add(size_t prompt, const v1::GenerateResponse& response, std::string& out) override {
    if (response.has_chunk()) {
      const TextPart part = PartOf(prompt, response.chunk());
      events_.Choice(ChoiceJson(part), usage_, out);
    } else if (response.has_complete()) {
      const v1::GenerateComplete& complete = response.complete();
      usage_.Add(complete.usage());
      fingerprint_ = complete.system_fingerprint();
      const TextPart part = PartOf(prompt, complete);
      Json json = ChoiceJson(part);
      json["finish_reason"] = FinishReasonName(complete.finish_reason());
      AddEnd(complete, options_, json);
      if (options_.stream.stream) {
        events_.Choice(json, usage_, out);
      } else {
        answers_[IndexOf(part)] = std::move(json);
      }
    }
  }

  void Finish(std::string& out) override {
    if (options_.stream.stream) {
      events_.End(usage_, out);
    } else {
      out += WholeAnswer(options_, "text_completion", std::move(answers_), usage_, fingerprint_);
    }
  }

  void Fail(const ApiError& error, std::string& out) override { AppendErrorEvent(error, out); }

 private:
  size_t IndexOf(const TextPart& part) const {
    const size_t index = part.prompt * options_.choices + part.choice;
    BATON_CHECK(part.choice < options_.choices && index < choices_.size(),
                "a choice that was not asked for");
    return index;
  }

  Json ChoiceJson(const TextPart& part) {
    usage_.Count(part.token_ids.size());
    const size_t index = IndexOf(part);
    Json json = {{"index", index},
                 {"text", part.text},
                 {"logprobs", LogprobsJson(part, choices_[index])},
                 {"finish_reason", nullptr}};
    if (options_.return_token_ids) json["token_ids"] = part.token_ids;
    return json;
  }

  // Null where there are none.
  Json LogprobsJson(const TextPart& part, CompletionChoice& choice) {
    if (!options_.logprobs) return nullptr;
    TokenLogprobs& of_prompt = prompt_logprobs_[part.prompt];
    // They may come once for all choices of a prompt.
    if (of_prompt.empty()) of_prompt = part.prompt_logprobs;
    choice.offsets.AddText(part.text);
    CompletionLogprobs result;
    const bool first = !std::exchange(choice.has_prompt, true);
    if (first) result.Append(of_prompt, choice.offsets);
    result.Append(part.logprobs, choice.offsets);
    const bool none = part.logprobs.empty() && !(first && !of_prompt.empty());
    return none && options_.stream.stream ? Json() : result.ToJson();
  }

  const AnswerOptions options_;
  std::vector<TokenLogprobs> prompt_logprobs_;  // [prompts]
  std::vector<CompletionChoice> choices_;       // [prompts * choices]
  std::vector<Json> answers_;                   // [prompts * choices] of a whole answer
  UsageSum usage_;
  std::string fingerprint_;
  const EventWriter events_;
};

}  // namespace

std::unique_ptr<AnswerFormat> NewCompletionAnswer(AnswerOptions options, size_t prompts) {
  return std::make_unique<CompletionAnswer>(std::move(options), prompts);
}

}  // namespace baton
