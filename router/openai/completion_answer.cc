#include "router/openai/completion_answer.h"

#include <optional>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "router/openai/logprobs_json.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

struct CompletionPrompt {
  // They come once, with the first choice, and stand in all of them.
  TokenLogprobs logprobs{};
};

struct CompletionChoice {
  TextOffsets offsets{};
  bool has_prompt = false;
  std::optional<v1::GenerateComplete> complete{};  // set in a whole answer
};

class CompletionAnswer final : public AnswerFormat {
 public:
  CompletionAnswer(AnswerOptions options, size_t prompts)
      : options_(std::move(options)),
        prompts_(prompts),
        choices_(prompts * options_.choices),
        usage_(prompts),
        events_(options_, kObject) {}

  void Begin(size_t /*prompt*/, uint32_t prompt_tokens) override { usage_.Begin(prompt_tokens); }

  void Add(size_t prompt, const v1::GenerateResponse& response, std::string& out) override {
    if (response.has_chunk()) {
      const v1::GenerateChunk& chunk = response.chunk();
      prompts_[prompt].logprobs.MergeFrom(chunk.prompt_logprobs());
      usage_.Count(chunk.token_ids_size());
      // Those of the prompt alone wait for the first text, which shows where its tokens begin.
      const bool waits =
          chunk.text().empty() && chunk.logprobs().empty() && chunk.token_ids().empty();
      if (!waits) WriteChunk(prompt, chunk, out);
    } else if (response.has_complete()) {
      const v1::GenerateComplete& complete = response.complete();
      prompts_[prompt].logprobs.MergeFrom(complete.prompt_logprobs());
      usage_.Add(complete.usage());
      AddFingerprint(complete.system_fingerprint(), fingerprints_);
      if (options_.stream.stream) {
        events_.Choice(EndJson(prompt, complete), usage_, complete.system_fingerprint(), out);
      } else {
        choices_[IndexOf(prompt, complete.index())].complete = complete;
      }
    }
  }

  void Finish(std::string& out) override {
    if (options_.stream.stream) return events_.End(usage_, fingerprints_, out);
    Json choices = Json::array();
    for (size_t i = 0; i < choices_.size(); ++i) {
      BATON_CHECK(choices_[i].complete.has_value(), "an answer with a choice that has not ended");
      choices.push_back(EndJson(i / options_.choices, *choices_[i].complete));
    }
    out += WholeAnswer(options_, kObject, std::move(choices), usage_, fingerprints_);
  }

  void Fail(const ApiError& error, std::string& out) override { AppendErrorEvent(error, out); }

 private:
  static constexpr char kObject[] = "text_completion";

  size_t IndexOf(size_t prompt, uint32_t choice) const {
    BATON_CHECK(choice < options_.choices && prompt < prompts_.size(),
                "a choice that was not asked for");
    return prompt * options_.choices + choice;
  }

  void WriteChunk(size_t prompt, const v1::GenerateChunk& chunk, std::string& out) {
    if (options_.logprobs || options_.return_token_ids) {
      events_.Choice(ChoiceJson(prompt, chunk), usage_, "", out);
    } else {
      events_.TextChoice(IndexOf(prompt, chunk.index()), "\"text\":", chunk.text(), "", usage_,
                         out);
    }
  }

  Json EndJson(size_t prompt, const v1::GenerateComplete& complete) {
    Json json = ChoiceJson(prompt, complete);
    json["finish_reason"] = FinishReasonName(complete.finish_reason());
    AddEnd(complete, options_, json);
    return json;
  }

  // `message`: a chunk or a complete, which have the same fields.
  template <typename Message>
  Json ChoiceJson(size_t prompt, const Message& message) {
    const size_t index = IndexOf(prompt, message.index());
    Json json = {{"index", index},
                 {"text", message.text()},
                 {"logprobs", LogprobsJson(prompts_[prompt], message, choices_[index])},
                 {"finish_reason", nullptr}};
    if (options_.return_token_ids) json["token_ids"] = message.token_ids();
    return json;
  }

  // Null if none were asked for, or none are new in a stream.
  template <typename Message>
  Json LogprobsJson(const CompletionPrompt& prompt, const Message& message,
                    CompletionChoice& choice) {
    if (!options_.logprobs) return nullptr;
    choice.offsets.AddText(message.text());
    CompletionLogprobs result;
    const bool first = !std::exchange(choice.has_prompt, true);
    if (first) result.Append(prompt.logprobs, choice.offsets);
    result.Append(message.logprobs(), choice.offsets);
    const bool none = message.logprobs().empty() && !(first && !prompt.logprobs.empty());
    return none && options_.stream.stream ? Json() : result.ToJson();
  }

  const AnswerOptions options_;
  std::vector<CompletionPrompt> prompts_;
  std::vector<CompletionChoice> choices_;  // [prompts * choices]
  UsageSum usage_;
  std::string fingerprints_;  // fingerprints of the choices that have ended
  const EventWriter events_;
};

}  // namespace

std::unique_ptr<AnswerFormat> NewCompletionAnswer(AnswerOptions options, size_t prompts) {
  return std::make_unique<CompletionAnswer>(std::move(options), prompts);
}

}  // namespace baton
