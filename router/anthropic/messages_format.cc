#include "router/anthropic/messages_format.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "router/api/json_fields.h"
#include "router/api/named_event.h"
#include "router/openai/common_fields.h"
#include "router/tools/invalid_arguments.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// The arguments of a call. Those that are no object stand in one, and so do those that are nested
// too deep to be walked.
Json InputOf(const std::string& arguments) {
  if (arguments.empty()) return Json::object();
  absl::StatusOr<Json> input = ParseJsonBody(arguments);
  if (input.ok()) return *std::move(input);
  return {{kInvalidArguments, arguments}};
}

Json ContentBlock(const AnswerBlock& block) {
  switch (block.kind) {
    case AnswerBlock::Kind::kReasoning:
      return {{"type", "thinking"}, {"thinking", block.text}, {"signature", ""}};
    case AnswerBlock::Kind::kCall:
      return {{"type", "tool_use"},
              {"id", absl::StrCat("toolu_", block.id)},
              {"name", block.name},
              {"input", InputOf(block.text)}};
    case AnswerBlock::Kind::kText:
      break;
  }
  return {{"type", "text"}, {"text", block.text}, {"citations", nullptr}};
}

Json DeltaOf(AnswerBlock::Kind kind, const std::string& delta) {
  switch (kind) {
    case AnswerBlock::Kind::kReasoning:
      return {{"type", "thinking_delta"}, {"thinking", delta}};
    case AnswerBlock::Kind::kCall:
      return {{"type", "input_json_delta"}, {"partial_json", delta}};
    case AnswerBlock::Kind::kText:
      break;
  }
  return {{"type", "text_delta"}, {"text", delta}};
}

Json UsageOf(uint32_t prompt_tokens, uint32_t cached_tokens, uint32_t output_tokens) {
  // The prompt's tokens are the sum of the three kinds of input tokens.
  return {{"input_tokens", prompt_tokens - cached_tokens},
          {"cache_creation_input_tokens", 0},
          {"cache_read_input_tokens", cached_tokens},
          {"output_tokens", output_tokens}};
}

Json UsageOf(const v1::Usage& usage) {
  return UsageOf(usage.prompt_tokens(), usage.cached_tokens(), usage.completion_tokens());
}

}  // namespace

MessagesFormat::MessagesFormat(Options options, std::unique_ptr<AnswerParser> parser)
    : options_(std::move(options)), blocks_(std::move(parser)) {}

void MessagesFormat::Begin(size_t /*prompt*/, uint32_t prompt_tokens) {
  prompt_tokens_ = prompt_tokens;
}

void MessagesFormat::Add(size_t /*prompt*/, const v1::GenerateResponse& response,
                         std::string& out) {
  const std::vector<BlockEvent> events = blocks_.Add(response);
  if (!options_.stream) return;
  Start(out);
  for (const BlockEvent& event : events) Write(event, out);
}

void MessagesFormat::Finish(std::string& out) {
  if (!options_.stream) {
    Json message = Message();
    message.update(Stop());
    for (const AnswerBlock& block : blocks_.blocks()) {
      message["content"].push_back(ContentBlock(block));
    }
    message["usage"] = UsageOf(blocks_.complete()->usage());
    out += DumpJson(message);
    return;
  }
  AppendNamedEvent({{"type", "message_delta"},
                    {"delta", Stop()},
                    {"usage", UsageOf(blocks_.complete()->usage())}},
                   out);
  AppendNamedEvent({{"type", "message_stop"}}, out);
}

void MessagesFormat::Fail(const ApiError& error, std::string& out) {
  AppendNamedEvent(Json::parse(AnthropicErrorBody(error, options_.request_id)), out);
}

void MessagesFormat::Start(std::string& out) {
  if (std::exchange(started_, true)) return;
  AppendNamedEvent({{"type", "message_start"}, {"message", Message()}}, out);
  AppendNamedEvent({{"type", "ping"}}, out);
}

void MessagesFormat::Write(const BlockEvent& event, std::string& out) {
  const AnswerBlock& block = blocks_.blocks()[event.block];
  switch (event.kind) {
    case BlockEvent::Kind::kBegin:  // the block may have grown by now
      return AppendNamedEvent(
          {{"type", "content_block_start"},
           {"index", event.block},
           {"content_block",
            ContentBlock({.kind = block.kind, .id = block.id, .name = block.name})}},
          out);
    case BlockEvent::Kind::kDelta:
      return AppendNamedEvent({{"type", "content_block_delta"},
                               {"index", event.block},
                               {"delta", DeltaOf(block.kind, event.delta)}},
                              out);
    case BlockEvent::Kind::kEnd:
      return AppendNamedEvent({{"type", "content_block_stop"}, {"index", event.block}}, out);
  }
}

Json MessagesFormat::Message() const {
  return {{"id", absl::StrCat("msg_", options_.answer_id)},
          {"type", "message"},
          {"role", "assistant"},
          {"model", options_.model},
          {"content", Json::array()},
          {"stop_reason", nullptr},
          {"stop_sequence", nullptr},
          {"usage", UsageOf(prompt_tokens_, 0, 0)}};
}

Json MessagesFormat::Stop() const {
  const v1::GenerateComplete& complete = *blocks_.complete();
  Json reason = "end_turn", sequence = nullptr;
  for (const AnswerBlock& block : blocks_.blocks()) {
    if (block.kind == AnswerBlock::Kind::kCall) reason = "tool_use";
  }
  if (blocks_.has_cut_call()) reason = "end_turn";  // by a stop token: it cannot be made
  if (complete.has_matched_stop_str()) {
    reason = "stop_sequence";
    sequence = complete.matched_stop_str();
  }
  if (complete.finish_reason() == v1::FINISH_REASON_LENGTH) {
    const bool asked_more = complete.usage().completion_tokens() < options_.max_tokens;
    reason = asked_more ? "model_context_window_exceeded" : "max_tokens";
  }
  return {{"stop_reason", std::move(reason)}, {"stop_sequence", std::move(sequence)}};
}

}  // namespace baton
