// Writes answers in the form of an API.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/cord.h"

#include "baton/v1/generation.pb.h"
#include "router/api/api_error.h"
#include "router/tools/tool_form.h"

namespace baton {

// Turns the router's responses into the bytes of one HTTP answer: the events of a stream, or a
// whole JSON body. Not thread-safe: one caller at a time. An implementation for each API.
class AnswerFormat {
 public:
  virtual ~AnswerFormat() = default;

  // A prompt was let in and has this many tokens; called before its first response. For formats
  // that report the tokens before the usage at the end.
  virtual void Begin(size_t /*prompt*/, uint32_t /*prompt_tokens*/) {}
  // Every prompt's responses come in their order; those of different prompts in any. Appends events
  // ("data: ...\n\n") to `out`, or nothing yet; an answer that is no stream keeps what it needs.
  virtual void Add(size_t prompt, const v1::GenerateResponse& response, std::string& out) = 0;
  // All prompts' completes were added. Appends the stream's last events, or the whole body.
  virtual void Finish(std::string& out) = 0;
  // A stream has broken. Appends the event that reports it; nothing follows. Only for streams.
  virtual void Fail(const ApiError& error, std::string& out) = 0;
  // The rest of what the last of these three has written, after what it has appended to `out`: long
  // events or a long body, whose parts may be shared. REQUIRES: called after each of them.
  virtual absl::Cord TakeRest() { return {}; }
};

// A request of an API as Baton's requests, and the form of its answer.
struct ApiRequest {
  // One for each prompt: `prompts[i].stream` is `stream`. At least one.
  std::vector<v1::GenerateRequest> prompts{};
  bool stream = false;
  // Number of log probabilities in the answer for each token of a prompt, in all choices.
  uint64_t logprobs_of_prompt_token = 0;
  std::unique_ptr<AnswerFormat> format{};
  // What the client is to know of a request that is served for all that: one line of printable
  // ASCII, for a header of the answer. Empty: nothing.
  std::string warning{};
};

// What translations know of the router, beside the request's body.
struct ApiContext {
  std::string model;          // the only one, as clients call it
  std::string request_id;     // from x-request-id, the HTTP request's trace, or drawn
  std::string answer_id{};    // drawn for each answer: its id, and the ids of its calls
  int64_t created = 0;        // Unix seconds
  const ToolForm& tool_form;  // the model's
  // The same for the answers to one chat, whose variables of the template may open the reasoning.
  // Empty: it is the model's.
  std::function<ToolForm(const v1::ChatInput& chat)> tool_form_for{};
  // The sampling parameters of a request that sets none.
  v1::SamplingParams default_sampling{};

  ToolForm ToolFormFor(const v1::ChatInput& chat) const {
    return tool_form_for ? tool_form_for(chat) : tool_form;
  }
};

}  // namespace baton
