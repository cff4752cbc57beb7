#include "router/responses/responses_format.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "router/api/named_event.h"
#include "router/openai/common_fields.h"
#include "router/responses/response_object.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kInProgress[] = "in_progress";
constexpr char kCompleted[] = "completed";
constexpr char kIncomplete[] = "incomplete";

std::string RequestIdOf(const Json& response) {
  const auto& id = response.at("id").get_ref<const std::string&>();
  return std::string(absl::StripPrefix(id, "resp_"));
}

// The codes that OpenAI's responses know.
const char* CodeOf(const ApiError& error) {
  constexpr int kBadRequest = 400, kTooMany = 429;
  if (error.status == kBadRequest) return "invalid_prompt";
  return error.status == kTooMany ? "rate_limit_exceeded" : "server_error";
}

// What the kinds of blocks that grow are called in the types of events.
struct Growth {
  const char* delta;
  const char* done;
  const char* whole;  // the field of `done` that has all of it
};
Growth GrowthOf(AnswerBlock::Kind kind) {
  switch (kind) {
    case AnswerBlock::Kind::kReasoning:
      return {"response.reasoning_text.delta", "response.reasoning_text.done", "text"};
    case AnswerBlock::Kind::kCall:
      return {"response.function_call_arguments.delta", "response.function_call_arguments.done",
              "arguments"};
    case AnswerBlock::Kind::kText:
      break;
  }
  return {"response.output_text.delta", "response.output_text.done", "text"};
}

}  // namespace

ResponsesFormat::ResponsesFormat(Json response, bool stream, std::unique_ptr<AnswerParser> parser)
    : response_(std::move(response)),
      id_(RequestIdOf(response_)),
      stream_(stream),
      blocks_(std::move(parser)) {}

void ResponsesFormat::Add(size_t /*prompt*/, const v1::GenerateResponse& response,
                          std::string& out) {
  const std::vector<BlockEvent> events = blocks_.Add(response);
  if (!stream_) return;
  Start(out);
  for (const BlockEvent& event : events) {
    switch (event.kind) {
      case BlockEvent::Kind::kBegin:
        WriteBegin(event.block, out);
        break;
      case BlockEvent::Kind::kDelta:
        WriteDelta(event, out);
        break;
      case BlockEvent::Kind::kEnd:
        WriteEnd(event.block, out);
        break;
    }
  }
}

void ResponsesFormat::Finish(std::string& out) {
  Complete();
  if (!stream_) {
    out += DumpJson(response_);
    return;
  }
  const std::string type =
      absl::StrCat("response.", response_.at("status").get_ref<const std::string&>());
  Write(type.c_str(), {{"response", response_}}, out);
}

void ResponsesFormat::Fail(const ApiError& error, std::string& out) {
  Start(out);
  SetOutput();
  response_["status"] = "failed";
  response_["error"] = {{"code", CodeOf(error)}, {"message", error.message}};
  Write("response.failed", {{"response", response_}}, out);
}

void ResponsesFormat::Start(std::string& out) {
  if (std::exchange(started_, true)) return;
  Write("response.created", {{"response", response_}}, out);
  Write("response.in_progress", {{"response", response_}}, out);
}

void ResponsesFormat::WriteBegin(size_t index, std::string& out) {
  const AnswerBlock& grown = blocks_.blocks()[index];
  const AnswerBlock block{.kind = grown.kind, .id = grown.id, .name = grown.name};
  Write("response.output_item.added",
        {{"output_index", index}, {"item", OutputItem(block, id_, index, kInProgress)}}, out);
  if (block.kind == AnswerBlock::Kind::kCall) return;
  WriteOfItem("response.content_part.added", index,
              {{"content_index", 0}, {"part", ContentPart(block)}}, out);
}

void ResponsesFormat::WriteDelta(const BlockEvent& event, std::string& out) {
  const AnswerBlock::Kind kind = blocks_.blocks()[event.block].kind;
  Json fields = Json::object();
  if (kind != AnswerBlock::Kind::kCall) fields["content_index"] = 0;
  fields["delta"] = event.delta;
  if (kind == AnswerBlock::Kind::kText) fields["logprobs"] = LogprobList(event.logprobs);
  WriteOfItem(GrowthOf(kind).delta, event.block, fields, out);
}

void ResponsesFormat::WriteEnd(size_t index, std::string& out) {
  const AnswerBlock& block = blocks_.blocks()[index];
  const bool call = block.kind == AnswerBlock::Kind::kCall;
  const Growth growth = GrowthOf(block.kind);
  Json fields = Json::object();
  if (!call) fields["content_index"] = 0;
  fields[growth.whole] = block.text;
  if (block.kind == AnswerBlock::Kind::kText) fields["logprobs"] = LogprobList(block.logprobs);
  WriteOfItem(growth.done, index, fields, out);
  if (!call) {
    WriteOfItem("response.content_part.done", index,
                {{"content_index", 0}, {"part", ContentPart(block)}}, out);
  }
  Write("response.output_item.done",
        {{"output_index", index}, {"item", OutputItem(block, id_, index, StatusOf(index))}}, out);
}

void ResponsesFormat::Write(const char* type, const Json& fields, std::string& out) {
  Json event = {{"type", type}, {"sequence_number", sequence_number_++}};
  event.update(fields);
  AppendNamedEvent(event, out);
}

void ResponsesFormat::WriteOfItem(const char* type, size_t index, const Json& fields,
                                  std::string& out) {
  Json event = {{"item_id", OutputItemId(blocks_.blocks()[index], id_, index)},
                {"output_index", index}};
  event.update(fields);
  Write(type, event, out);
}

const char* ResponsesFormat::StatusOf(size_t index) const {
  if (!blocks_.blocks()[index].ended) return kIncomplete;
  const bool last = blocks_.complete().has_value() && index + 1 == blocks_.blocks().size();
  const bool cut = last && blocks_.complete()->finish_reason() == v1::FINISH_REASON_LENGTH;
  return cut ? kIncomplete : kCompleted;
}

void ResponsesFormat::SetOutput() {
  for (size_t i = 0; i < blocks_.blocks().size(); ++i) {
    response_["output"].push_back(OutputItem(blocks_.blocks()[i], id_, i, StatusOf(i)));
  }
}

void ResponsesFormat::Complete() {
  const v1::GenerateComplete& complete = *blocks_.complete();
  SetOutput();
  response_["usage"] = ResponseUsage(complete.usage());
  if (complete.finish_reason() == v1::FINISH_REASON_LENGTH) {
    response_["status"] = kIncomplete;
    response_["incomplete_details"] = {{"reason", "max_output_tokens"}};
    return;
  }
  response_["status"] = kCompleted;
  response_["completed_at"] =
      response_.at("created_at").get<int64_t>() + complete.timings().total().seconds();
}

}  // namespace baton
