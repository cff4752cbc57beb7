#include "router/openai/chat_answer.h"

#include <utility>

#include "common/base/check.h"
#include "router/openai/logprobs_json.h"
#include "router/tools/last_call.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;
using Kind = AnswerPart::Kind;

// Adds more reasoning under both names that clients know: DeepSeek's and vLLM's.
void AddReasoning(const std::string& text, Json& message) {
  for (const char* name : {"reasoning_content", "reasoning"}) {
    message[name] = message.value(name, std::string()) + text;
  }
}

// The type of the call, and the field that has its text.
const char* TypeOf(const AnswerPart& part) { return part.is_custom ? "custom" : "function"; }
const char* TextFieldOf(const AnswerPart& part) { return part.is_custom ? "input" : "arguments"; }

// {"name"}, and "namespace" if the tool has one.
Json NameOf(const AnswerPart& part) {
  Json name = {{"name", part.name}};
  if (!part.space.empty()) name["namespace"] = part.space;
  return name;
}

// {"index", "id", "type", "function"} where the call begins, else {"index", "function"}. A custom
// tool's call has "custom" in place of "function".
Json CallDelta(const AnswerPart& part) {
  Json call = {{"index", part.call}};
  Json inside = Json::object();
  if (part.kind == Kind::kCall) {
    call["id"] = part.id;
    call["type"] = TypeOf(part);
    inside = NameOf(part);
  }
  inside[TextFieldOf(part)] = part.text;
  call[TypeOf(part)] = std::move(inside);
  return call;
}

// A function of the old form has no index, id or type.
Json OldCallDelta(const AnswerPart& part) {
  if (part.kind == Kind::kCall) return {{"name", part.name}, {"arguments", part.text}};
  return {{"arguments", part.text}};
}

// One call's beginning and the arguments that follow it at once are one part; so are texts in a
// row.
std::vector<AnswerPart> Joined(std::vector<AnswerPart> parts) {
  std::vector<AnswerPart> result;
  for (AnswerPart& part : parts) {
    const bool continues =
        !result.empty() &&
        (part.kind == Kind::kArguments
             ? result.back().call == part.call &&
                   (result.back().kind == Kind::kCall || result.back().kind == Kind::kArguments)
             : part.kind != Kind::kCall && result.back().kind == part.kind);
    if (continues) {
      result.back().text += part.text;
    } else {
      result.push_back(std::move(part));
    }
  }
  return result;
}

struct Choice {
  std::unique_ptr<AnswerParser> parser;
  bool has_role = false;
  bool has_calls = false;
  LastCall last_call{};
  bool has_reasoning = false;
  uint64_t tokens_before_answer = 0;  // before the first text or call, in a stream
  bool has_answer = false;            // whether text or a call has come
  Json logprobs = Json::array();      // not yet sent
  Json token_ids = Json::array();     // not yet sent
};

class ChatAnswer final : public AnswerFormat {
 public:
  ChatAnswer(ChatAnswerOptions options, std::vector<std::unique_ptr<AnswerParser>> parsers)
      : options_(std::move(options)),
        answers_(parsers.size()),
        usage_(1),
        events_(options_.answer, "chat.completion.chunk") {
    for (auto& parser : parsers) choices_.push_back({.parser = std::move(parser)});
  }

  void Begin(size_t /*prompt*/, uint32_t prompt_tokens) override { usage_.Begin(prompt_tokens); }

  void Add(size_t /*prompt*/, const v1::GenerateResponse& response, std::string& out) override {
    if (response.has_chunk()) {
      const v1::GenerateChunk& chunk = response.chunk();
      Choice& choice = At(chunk.index());
      KeepTokens(chunk, choice);
      WriteParts(chunk.index(), choice.parser->Add(chunk.text()), out);
      if (!choice.has_answer) {
        choice.tokens_before_answer += static_cast<uint64_t>(chunk.token_ids_size());
      }
    } else if (response.has_complete()) {
      const v1::GenerateComplete& complete = response.complete();
      KeepTokens(complete, At(complete.index()));
      usage_.Add(complete.usage());
      AddFingerprint(complete.system_fingerprint(), fingerprints_);
      options_.answer.stream.stream ? WriteEnd(complete, out) : Keep(complete);
    }
  }

  void Finish(std::string& out) override {
    if (options_.answer.stream.stream) {
      events_.End(usage_, fingerprints_, out);
    } else {
      out += WholeAnswer(options_.answer, "chat.completion", std::move(answers_), usage_,
                         fingerprints_);
    }
  }

  void Fail(const ApiError& error, std::string& out) override { AppendErrorEvent(error, out); }

 private:
  Choice& At(uint32_t index) {
    BATON_CHECK(index < choices_.size(), "a choice that was not asked for");
    return choices_[index];
  }

  // Keeps the tokens' fields of chunks and completes.
  template <typename Message>
  void KeepTokens(const Message& message, Choice& choice) {
    usage_.Count(message.token_ids_size());
    choice.parser->AddTokens(message.token_ids());
    if (options_.answer.logprobs) AppendChatLogprobs(message.logprobs(), choice.logprobs);
    if (options_.answer.return_token_ids) {
      for (const uint32_t id : message.token_ids()) choice.token_ids.push_back(id);
    }
  }

  // Moves that into `json`, which is of one choice.
  void TakeTokens(Choice& choice, Json& json) const {
    json["logprobs"] = nullptr;
    if (options_.answer.logprobs && !choice.logprobs.empty()) {
      json["logprobs"] = {{"content", std::exchange(choice.logprobs, Json::array())},
                          {"refusal", nullptr}};
    }
    if (options_.answer.return_token_ids) {
      json["token_ids"] = std::exchange(choice.token_ids, Json::array());
    }
  }

  const char* Reason(const Choice& choice, v1::FinishReason reason) const {
    // A stop string or token within a call leaves no call that can be made.
    const bool calls = choice.has_calls && !choice.last_call.is_cut();
    if (reason != v1::FINISH_REASON_STOP || !calls) return FinishReasonName(reason);
    return options_.old_functions ? "function_call" : "tool_calls";
  }

  // A choice of a whole answer.
  void Keep(const v1::GenerateComplete& complete) {
    Choice& choice = At(complete.index());
    Json& json = answers_[complete.index()];
    json["index"] = complete.index();
    json["message"] = Message(complete.text(), choice);
    TakeTokens(choice, json);
    json["finish_reason"] = Reason(choice, complete.finish_reason());
    AddEnd(complete, options_.answer, json);
    if (!choice.has_reasoning) usage_.AddReasoning(0);
  }

  Json Message(const std::string& text, Choice& choice) const {
    std::vector<AnswerPart> parts = choice.parser->Add(text);
    for (AnswerPart& part : choice.parser->Finish()) parts.push_back(std::move(part));
    std::string content;
    Json message = {{"role", "assistant"}, {"content", nullptr}, {"refusal", nullptr}};
    Json calls = Json::array();
    for (const AnswerPart& part : Joined(std::move(parts))) {
      choice.last_call.Add(part);
      if (part.kind == Kind::kText) {
        content += part.text;
      } else if (part.kind == Kind::kReasoning) {
        choice.has_reasoning = true;
        AddReasoning(part.text, message);
      } else if (part.kind == Kind::kCall) {
        Json inside = NameOf(part);
        inside[TextFieldOf(part)] = part.text;
        calls.push_back(
            {{"id", part.id}, {"type", TypeOf(part)}, {TypeOf(part), std::move(inside)}});
      } else {
        Json& call = calls.at(static_cast<size_t>(part.call));
        Json& arguments = call[TypeOf(part)][TextFieldOf(part)];
        arguments = arguments.get<std::string>() + part.text;
      }
    }
    choice.has_calls = !calls.empty();
    if (!choice.has_calls || !content.empty()) message["content"] = std::move(content);
    if (choice.has_calls && options_.old_functions) {
      message["function_call"] = std::move(calls[0]["function"]);
    } else if (choice.has_calls) {
      message["tool_calls"] = std::move(calls);
    }
    return message;
  }

  // Streams.

  void WriteParts(uint32_t index, std::vector<AnswerPart> parts, std::string& out) {
    Choice& choice = At(index);
    const bool tells_tokens = options_.answer.logprobs || options_.answer.return_token_ids;
    for (const AnswerPart& part : Joined(std::move(parts))) {
      choice.last_call.Add(part);
      if (part.kind == Kind::kText && choice.has_role && !tells_tokens) {
        choice.has_answer = true;
        events_.TextChoice(index, "\"delta\":{\"content\":", part.text, "}", usage_, out);
        continue;
      }
      Json delta = NewDelta(choice);
      if (part.kind == Kind::kReasoning) choice.has_reasoning = true;
      if (part.kind != Kind::kReasoning) choice.has_answer = true;
      if (part.kind == Kind::kText) {
        delta["content"] = part.text;
      } else if (part.kind == Kind::kReasoning) {
        AddReasoning(part.text, delta);
      } else {
        choice.has_calls = true;
        AddCall(part, delta);
      }
      WriteChoice(index, std::move(delta), nullptr, out);
    }
  }

  void AddCall(const AnswerPart& part, Json& delta) const {
    if (options_.old_functions) {
      delta["function_call"] = OldCallDelta(part);
    } else {
      delta["tool_calls"] = Json::array({CallDelta(part)});
    }
  }

  void WriteEnd(const v1::GenerateComplete& complete, std::string& out) {
    Choice& choice = At(complete.index());
    WriteParts(complete.index(), choice.parser->Finish(), out);
    Json delta = NewDelta(choice);
    if (!delta.empty()) delta["content"] = "";  // nothing has come of it
    WriteChoice(complete.index(), std::move(delta), &complete, out);
    usage_.AddReasoning(choice.has_reasoning ? choice.tokens_before_answer : 0);
  }

  // The first has the role.
  static Json NewDelta(Choice& choice) {
    if (std::exchange(choice.has_role, true)) return Json::object();
    return {{"role", "assistant"}};
  }

  // `complete` is null but for the end of the choice.
  void WriteChoice(uint32_t index, Json delta, const v1::GenerateComplete* complete,
                   std::string& out) {
    Choice& choice = At(index);
    Json json = {{"index", index}, {"delta", std::move(delta)}};
    TakeTokens(choice, json);
    json["finish_reason"] = nullptr;
    if (complete != nullptr) {
      json["finish_reason"] = Reason(choice, complete->finish_reason());
      AddEnd(*complete, options_.answer, json);
    }
    events_.Choice(json, usage_, complete != nullptr ? complete->system_fingerprint() : "", out);
  }

  const ChatAnswerOptions options_;
  std::vector<Choice> choices_;
  std::vector<Json> answers_;  // [choices], for a whole answer
  UsageSum usage_;
  std::string fingerprints_;  // fingerprints of the choices that have ended
  const EventWriter events_;
};

}  // namespace

std::unique_ptr<AnswerFormat> NewChatAnswer(ChatAnswerOptions options,
                                            std::vector<std::unique_ptr<AnswerParser>> parsers) {
  return std::make_unique<ChatAnswer>(std::move(options), std::move(parsers));
}

}  // namespace baton
