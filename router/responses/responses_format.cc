#include "router/responses/responses_format.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr char kInProgress[] = "in_progress";
constexpr char kCompleted[] = "completed";
constexpr char kIncomplete[] = "incomplete";

std::string AnswerIdOf(const Json& response) {
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
Growth GrowthOf(const AnswerBlock& block) {
  if (block.is_custom) {
    return {"response.custom_tool_call_input.delta", "response.custom_tool_call_input.done",
            "input"};
  }
  switch (block.kind) {
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
    : id_(AnswerIdOf(response)),
      created_at_(response.at("created_at").get<int64_t>()),
      response_(response),
      stream_(stream),
      blocks_(std::move(parser)) {}

void ResponsesFormat::Add(size_t /*prompt*/, const v1::GenerateResponse& response,
                          std::string& out) {
  const std::vector<BlockEvent> events = blocks_.Add(response);
  if (stream_) Start(out);
  for (const BlockEvent& event : events) {
    switch (event.kind) {
      case BlockEvent::Kind::kBegin:
        items_.emplace_back();
        if (stream_) WriteBegin(event.block, out);
        break;
      case BlockEvent::Kind::kDelta:
        AddDelta(event, out);
        break;
      case BlockEvent::Kind::kEnd:
        if (stream_) WriteEnd(event.block, out);
        break;
    }
  }
}

void ResponsesFormat::Finish(std::string& out) {
  Complete();
  if (!stream_) return Append(response_.Text(), out);
  WriteResponse(absl::StrCat("response.", status_).c_str(), out);
}

void ResponsesFormat::Fail(const ApiError& error, std::string& out) {
  Start(out);
  SetOutput();
  SetStatus("failed");
  const Json told = {{"code", CodeOf(error)}, {"message", error.message}};
  response_.Set("error", told);
  WriteResponse("response.failed", out);
}

absl::Cord ResponsesFormat::TakeRest() { return std::exchange(rest_, absl::Cord()); }

void ResponsesFormat::Append(absl::Cord text, std::string& out) {
  constexpr size_t kShortBytes = size_t{16} << 10;
  if (rest_.empty() && text.size() <= kShortBytes) {
    out += std::string(text);
  } else {
    rest_.Append(std::move(text));
  }
}

void ResponsesFormat::Start(std::string& out) {
  if (std::exchange(started_, true)) return;
  WriteResponse("response.created", out);
  WriteResponse("response.in_progress", out);
}

void ResponsesFormat::WriteBegin(size_t index, std::string& out) {
  const AnswerBlock& grown = blocks_.blocks()[index];
  const AnswerBlock block{.kind = grown.kind,
                          .id = grown.id,
                          .name = grown.name,
                          .space = grown.space,
                          .is_custom = grown.is_custom};
  SharedObject added;
  added.Set("output_index", index);
  added.Set("item", OutputItem(block, {}, id_, index, kInProgress));
  Write("response.output_item.added", added, out);
  if (block.kind == AnswerBlock::Kind::kCall) return;
  SharedObject fields = FieldsOf(index);
  fields.Set("content_index", 0);
  fields.Set("part", ContentPart(block.kind, {}));
  Write("response.content_part.added", fields, out);
}

void ResponsesFormat::AddDelta(const BlockEvent& event, std::string& out) {
  const AnswerBlock& block = blocks_.blocks()[event.block];
  const std::string text = EscapedText(event.delta);
  const std::string logprobs = LogprobTexts(event.logprobs);
  Item& item = items_[event.block];
  item.text.Append(text);
  if (!logprobs.empty()) item.logprobs.Append(item.logprobs.empty() ? "" : ",");
  item.logprobs.Append(logprobs);
  if (!stream_) return;
  SharedObject fields = FieldsOf(event.block);
  if (block.kind != AnswerBlock::Kind::kCall) fields.Set("content_index", 0);
  fields.Set("delta", absl::Cord(absl::StrCat("\"", text, "\"")));
  if (block.kind == AnswerBlock::Kind::kText) {
    fields.Set("logprobs", absl::Cord(absl::StrCat("[", logprobs, "]")));
  }
  Write(GrowthOf(block).delta, fields, out);
}

void ResponsesFormat::WriteEnd(size_t index, std::string& out) {
  const AnswerBlock& block = blocks_.blocks()[index];
  const ItemContent content = ContentOf(index);
  const bool call = block.kind == AnswerBlock::Kind::kCall;
  const Growth growth = GrowthOf(block);
  SharedObject done = FieldsOf(index);
  if (!call) done.Set("content_index", 0);
  done.Set(growth.whole, Enclosed("\"", content.text, "\""));
  if (block.kind == AnswerBlock::Kind::kText) {
    done.Set("logprobs", Enclosed("[", content.logprobs, "]"));
  }
  Write(growth.done, done, out);
  if (!call) {
    SharedObject part = FieldsOf(index);
    part.Set("content_index", 0);
    part.Set("part", ContentPart(block.kind, content));
    Write("response.content_part.done", part, out);
  }
  SharedObject item;
  item.Set("output_index", index);
  item.Set("item", OutputItem(block, content, id_, index, StatusOf(index)));
  Write("response.output_item.done", item, out);
}

void ResponsesFormat::Write(const char* type, const SharedObject& fields, std::string& out) {
  absl::Cord text(absl::StrCat("event: ", type, "\ndata: {\"type\":\"", type,
                               "\",\"sequence_number\":", sequence_number_++, ","));
  absl::Cord rest = fields.Text();
  rest.RemovePrefix(1);
  text.Append(std::move(rest));
  text.Append("\n\n");
  Append(std::move(text), out);
}

void ResponsesFormat::WriteResponse(const char* type, std::string& out) {
  SharedObject fields;
  fields.Set("response", response_.Text());
  Write(type, fields, out);
}

SharedObject ResponsesFormat::FieldsOf(size_t index) const {
  SharedObject fields;
  fields.Set("item_id", OutputItemId(blocks_.blocks()[index], id_, index));
  fields.Set("output_index", index);
  return fields;
}

ItemContent ResponsesFormat::ContentOf(size_t index) {
  return {.text = items_[index].text.Get(), .logprobs = items_[index].logprobs.Get()};
}

const char* ResponsesFormat::StatusOf(size_t index) const {
  if (!blocks_.blocks()[index].ended) return kIncomplete;
  const bool last = blocks_.complete().has_value() && index + 1 == blocks_.blocks().size();
  const bool is_call = blocks_.blocks()[index].kind == AnswerBlock::Kind::kCall;
  const bool cut = last && (blocks_.complete()->finish_reason() == v1::FINISH_REASON_LENGTH ||
                            (is_call && blocks_.has_cut_call()));
  return cut ? kIncomplete : kCompleted;
}

void ResponsesFormat::SetStatus(const char* status) {
  status_ = status;
  response_.Set("status", status);
}

void ResponsesFormat::SetOutput() {
  absl::Cord items;
  for (size_t i = 0; i < blocks_.blocks().size(); ++i) {
    if (i > 0) items.Append(",");
    items.Append(OutputItem(blocks_.blocks()[i], ContentOf(i), id_, i, StatusOf(i)));
  }
  response_.Set("output", Enclosed("[", items, "]"));
}

void ResponsesFormat::Complete() {
  const v1::GenerateComplete& complete = *blocks_.complete();
  SetOutput();
  response_.Set("usage", ResponseUsage(complete.usage()));
  if (complete.finish_reason() == v1::FINISH_REASON_LENGTH) {
    SetStatus(kIncomplete);
    const Json details = {{"reason", "max_output_tokens"}};
    response_.Set("incomplete_details", details);
    return;
  }
  SetStatus(kCompleted);
  response_.Set("completed_at", created_at_ + complete.timings().total().seconds());
}

}  // namespace baton
