#include "bench/serve/target/openai_stream.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace baton {
namespace {

using Json = nlohmann::json;

constexpr size_t kMaxLineBytes = 16 << 20;
constexpr size_t kMaxErrorBytes = 200;
constexpr char kRefusal[] = "rate_limit_error";  // OpenAI's type of an error with the status 429
constexpr double kMaxStageMs = 1e9;

// The field, if it is there and is no null.
const Json* Field(const Json& json, const char* name) {
  if (!json.is_object()) return nullptr;
  const auto found = json.find(name);
  return found == json.end() || found->is_null() ? nullptr : &*found;
}

uint64_t CountField(const Json& json, const char* name) {
  const Json* const field = Field(json, name);
  return field != nullptr && field->is_number_unsigned() ? field->get<uint64_t>() : 0;
}

bool HasContent(const Json& json, std::initializer_list<const char*> names) {
  return std::any_of(names.begin(), names.end(), [&](const char* name) {
    const Json* const field = Field(json, name);
    return field != nullptr && (field->is_string() || field->is_array()) &&
           (field->is_array() ? !field->empty() : !field->get_ref<const std::string&>().empty());
  });
}

// The index in kStageNames of a field of timings: Baton's names, and those of llama-server.
size_t StageOf(const std::string& field) {
  if (field == "prompt_ms") return StageOf("prefill_ms");
  if (field == "predicted_ms") return StageOf("decode_ms");
  if (field == "time_to_first_token_ms") return StageOf("server_ttft_ms");
  if (field == "total_ms") return StageOf("server_total_ms");
  const auto found = std::find_if(kStageNames.begin(), kStageNames.end(), [&](const char* name) {
    return field == absl::StrCat(name, "_ms");
  });
  return static_cast<size_t>(found - kStageNames.begin());
}

}  // namespace

void OpenAiStream::Take(absl::string_view bytes, int64_t now_ns) {
  while (!bytes.empty() && error_.empty()) {
    const size_t end = bytes.find('\n');
    if (end == absl::string_view::npos) {
      if (partial_.size() + bytes.size() > kMaxLineBytes) {
        error_ = "a line of the stream is longer than 16 MiB";
        return;
      }
      absl::StrAppend(&partial_, bytes);
      return;
    }
    if (partial_.empty()) {
      TakeLine(bytes.substr(0, end), now_ns);
    } else {
      absl::StrAppend(&partial_, bytes.substr(0, end));
      const std::string line = std::exchange(partial_, "");
      TakeLine(line, now_ns);
    }
    bytes.remove_prefix(end + 1);
  }
}

void OpenAiStream::TakeLine(absl::string_view line, int64_t now_ns) {
  absl::ConsumeSuffix(&line, "\r");
  if (!absl::ConsumePrefix(&line, "data:")) return;  // a comment, or a blank line between events
  absl::ConsumePrefix(&line, " ");
  if (line == "[DONE]") {
    done_ = true;
    return;
  }
  const Json event = Json::parse(line.begin(), line.end(), nullptr, /*allow_exceptions=*/false);
  if (event.is_object()) return TakeEvent(event, now_ns);
  error_ =
      absl::StrCat("an event of the stream is not a JSON object: ", line.substr(0, kMaxErrorBytes));
}

void OpenAiStream::TakeEvent(const Json& event, int64_t now_ns) {
  if (const Json* const error = Field(event, "error"); error != nullptr) {
    const Json* const message = Field(*error, "message");
    const std::string text = message != nullptr && message->is_string()
                                 ? message->get<std::string>()
                                 : error->dump(-1, ' ', false, Json::error_handler_t::replace);
    error_ = absl::StrCat("the stream told an error: ", text.substr(0, kMaxErrorBytes));
    const Json* const type = Field(*error, "type");
    refused_ = type != nullptr && *type == kRefusal && record_.messages.empty();
    return;
  }
  const Json* const usage = Field(event, "usage");
  if (usage != nullptr) {
    told_ = std::max(told_, CountField(*usage, "completion_tokens"));
    if (const uint64_t prompt = CountField(*usage, "prompt_tokens"); prompt > 0) {
      record_.input_tokens = prompt;
    }
  }
  if (const Json* const timings = Field(event, "timings")) TakeTimings(*timings);
  const Json* const choices = Field(event, "choices");
  if (choices == nullptr || !choices->is_array() || choices->empty()) return;
  const Json& choice = choices->front();
  if (const Json* const timings = Field(choice, "timings")) TakeTimings(*timings);
  const uint32_t tokens = TokensOf(choice, usage);
  if (tokens == 0) return;
  counted_ += tokens;
  record_.messages.push_back({now_ns, tokens});
}

uint32_t OpenAiStream::TokensOf(const Json& choice, const Json* usage) {
  if (const Json* const ids = Field(choice, "token_ids"); ids != nullptr && ids->is_array()) {
    by_ids_ = true;
    return static_cast<uint32_t>(ids->size());
  }
  if (usage != nullptr) {
    const uint64_t so_far = CountField(*usage, "completion_tokens");
    by_usage_ = true;
    return so_far > counted_ ? static_cast<uint32_t>(so_far - counted_) : 0;
  }
  const Json* const delta = Field(choice, "delta");
  const bool content = HasContent(choice, {"text"}) ||
                       (delta != nullptr && HasContent(*delta, {"content", "reasoning_content",
                                                                "reasoning", "tool_calls"}));
  by_messages_ = by_messages_ || content;
  return content ? 1 : 0;
}

void OpenAiStream::TakeTimings(const Json& timings) {
  if (!timings.is_object()) return;
  for (const auto& [name, value] : timings.items()) {
    if (name == "local_prefill" && value.is_boolean()) record_.local_prefill = value.get<bool>();
    if (!value.is_number()) continue;
    if (name == "attempts") record_.attempts = value.get<uint32_t>();
    const size_t stage = StageOf(name);
    const auto ms = value.get<double>();
    if (stage < kStages && ms >= 0 && ms < kMaxStageMs) {
      record_.stages_ns[stage] = std::llround(ms * 1e6);
    }
  }
}

void OpenAiStream::Settle() {
  if (!by_messages_) {
    record_.count = by_ids_ ? TokensTold::kIds : TokensTold::kUsage;
    return;
  }
  if (told_ == 0) {
    record_.count = TokensTold::kMessages;
    return;
  }
  record_.count = told_ == counted_ ? TokensTold::kUsage : TokensTold::kSpread;
  if (record_.count == TokensTold::kUsage) return;
  const uint64_t messages = record_.messages.size();
  for (uint64_t i = 0; i < messages; ++i) {
    record_.messages[i].tokens =
        static_cast<uint32_t>((i + 1) * told_ / messages - i * told_ / messages);
  }
}

std::string OpenAiStream::End() {
  Settle();
  if (error_.empty() && !done_) error_ = "the stream ended without [DONE]";
  return error_;
}

}  // namespace baton
