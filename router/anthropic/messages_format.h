// The answer of /v1/messages: named events, or a whole message.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "router/api/answer_blocks.h"
#include "router/api/answer_format.h"

namespace baton {

// Every block of the answer is a block of the message's content. message_start has the prompt's
// tokens if Begin had them; the cached tokens come at the end, with the true usage. A
// stream that breaks ends with `event: error`.
class MessagesFormat final : public AnswerFormat {
 public:
  struct Options {
    std::string request_id;  // in errors
    std::string answer_id;
    std::string model;
    bool stream = false;
    // As the client asks for it. If an answer ends at a length below it, the context has ended it.
    uint32_t max_tokens = 0;
  };
  MessagesFormat(Options options, std::unique_ptr<AnswerParser> parser);

  void Begin(size_t prompt, uint32_t prompt_tokens) override;
  void Add(size_t prompt, const v1::GenerateResponse& response, std::string& out) override;
  void Finish(std::string& out) override;
  void Fail(const ApiError& error, std::string& out) override;

 private:
  using Json = nlohmann::ordered_json;

  void Start(std::string& out);
  void Write(const BlockEvent& event, std::string& out);
  Json Message() const;
  // {"stop_reason", "stop_sequence"}
  Json Stop() const;

  const Options options_;
  AnswerBlocks blocks_;
  uint32_t prompt_tokens_ = 0;
  bool started_ = false;
};

}  // namespace baton
