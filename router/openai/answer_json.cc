#include "router/openai/answer_json.h"

#include <array>
#include <charconv>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/check.h"
#include "common/base/utf8.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

double Milliseconds(const google::protobuf::Duration& duration) {
  constexpr double kMillisecondsInSecond = 1e3, kNanosecondsInMillisecond = 1e6;
  return static_cast<double>(duration.seconds()) * kMillisecondsInSecond +
         static_cast<double>(duration.nanos()) / kNanosecondsInMillisecond;
}

// Adds the fingerprint to an event whose object is still open.
void AppendFingerprint(const std::string& fingerprint, std::string& out) {
  if (fingerprint.empty()) return;
  absl::StrAppend(&out, ",\"system_fingerprint\":", DumpJson(fingerprint));
}

}  // namespace

double JsonFloat(float value) {
  constexpr double kNoNumber = -9999;
  if (!std::isfinite(value)) return kNoNumber;
  // A decimal number of at most 9 digits is the shortest text of the double that it reads as, too.
  std::array<char, 32> digits;
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  double result = 0;
  std::from_chars(digits.data(), written.ptr, result);
  return result;
}

std::string TokenText(absl::string_view bytes) {
  if (IsUtf8(bytes)) return std::string(bytes);
  std::string text = "bytes:";
  for (const char byte : bytes) {
    absl::StrAppendFormat(&text, "\\x%02x", static_cast<unsigned char>(byte));
  }
  return text;
}

const char* FinishReasonName(v1::FinishReason reason) {
  BATON_CHECK(reason == v1::FINISH_REASON_STOP || reason == v1::FINISH_REASON_LENGTH,
              "a choice that did not end by itself is an error, not an answer");
  return reason == v1::FINISH_REASON_STOP ? "stop" : "length";
}

Json StopReason(const v1::GenerateComplete& complete) {
  if (complete.has_matched_stop_str()) return complete.matched_stop_str();
  if (complete.has_matched_token_id()) return complete.matched_token_id();
  return nullptr;
}

void UsageSum::Begin(uint32_t prompt_tokens) {
  ++begun_;
  begun_tokens_ += prompt_tokens;
}

void UsageSum::Add(const v1::Usage& usage) {
  prompt_tokens_ += usage.prompt_tokens();
  completion_tokens_ += usage.completion_tokens();
  cached_tokens_ += usage.cached_tokens();
  accepted_ += usage.accepted_prediction_tokens();
  rejected_ += usage.rejected_prediction_tokens();
}

Json UsageSum::ToJson() const {
  Json details = {{"accepted_prediction_tokens", accepted_},
                  {"rejected_prediction_tokens", rejected_}};
  if (reasoning_.has_value()) details["reasoning_tokens"] = *reasoning_;
  return {{"prompt_tokens", prompt_tokens_},
          {"completion_tokens", completion_tokens_},
          {"total_tokens", prompt_tokens_ + completion_tokens_},
          {"prompt_tokens_details", {{"cached_tokens", cached_tokens_}}},
          {"completion_tokens_details", std::move(details)}};
}

Json UsageSum::RunningJson() const {
  if (begun_ < prompts_) return nullptr;
  return {{"prompt_tokens", begun_tokens_},
          {"completion_tokens", running_},
          {"total_tokens", begun_tokens_ + running_}};
}

Json TimingsJson(const v1::RequestTimings& timings) {
  using Timings = v1::RequestTimings;
  using Has = bool (Timings::*)() const;
  using Get = const google::protobuf::Duration& (Timings::*)() const;
  const struct {
    const char* name;
    Has has;
    Get get;
  } durations[] = {
      {"queue_ms", &Timings::has_queue, &Timings::queue},
      {"prefill_queue_ms", &Timings::has_prefill_queue, &Timings::prefill_queue},
      {"prefill_ms", &Timings::has_prefill, &Timings::prefill},
      {"kv_transfer_ms", &Timings::has_kv_transfer, &Timings::kv_transfer},
      {"exposed_kv_transfer_ms", &Timings::has_exposed_kv_transfer, &Timings::exposed_kv_transfer},
      {"decode_queue_ms", &Timings::has_decode_queue, &Timings::decode_queue},
      {"decode_ms", &Timings::has_decode, &Timings::decode},
      {"time_to_first_token_ms", &Timings::has_time_to_first_token, &Timings::time_to_first_token},
      {"total_ms", &Timings::has_total, &Timings::total},
  };
  Json result = Json::object();
  for (const auto& [name, has, get] : durations) {
    if ((timings.*has)()) result[name] = Milliseconds((timings.*get)());
  }
  result["kv_transfer_bytes"] = timings.kv_transfer_bytes();
  result["kv_transfer_bytes_saved"] = timings.kv_transfer_bytes_saved();
  result["kv_transfer_bytes_resent"] = timings.kv_transfer_bytes_resent();
  result["kv_transfer_messages"] = timings.kv_transfer_messages();
  result["kv_wire_dtype"] = timings.kv_wire_dtype();
  result["attempts"] = timings.attempts();
  result["local_prefill"] = timings.local_prefill();
  result["prefill_worker"] = timings.prefill_worker();
  result["decode_worker"] = timings.decode_worker();
  result["exact"] = timings.exact();
  return result;
}

void AddEnd(const v1::GenerateComplete& complete, const AnswerOptions& options, Json& choice) {
  choice["stop_reason"] = StopReason(complete);
  // Signed, as clients send it.
  choice["seed"] = static_cast<int64_t>(complete.seed());
  if (options.return_timings) choice["timings"] = TimingsJson(complete.timings());
}

void AddFingerprint(const std::string& fingerprint, std::string& all) {
  if (absl::StrContains(all, fingerprint)) return;
  absl::StrAppend(&all, all.empty() ? "" : ", ", fingerprint);
}

EventWriter::EventWriter(const AnswerOptions& options, const char* object)
    : stream_(options.stream) {
  const Json same = {{"id", options.id},
                     {"object", object},
                     {"created", options.created},
                     {"model", options.model}};
  head_ = absl::StrCat("data: ", DumpJson(same));
  head_.pop_back();  // the object goes on
  head_ += ",\"choices\":[";
}

void EventWriter::Choice(const Json& choice, const UsageSum& usage, const std::string& fingerprint,
                         std::string& out) const {
  absl::StrAppend(&out, head_, DumpJson(choice));
  EndChoice(usage, fingerprint, out);
}

void EventWriter::TextChoice(size_t index, absl::string_view before, const std::string& text,
                             absl::string_view after, const UsageSum& usage,
                             std::string& out) const {
  absl::StrAppend(&out, head_, "{\"index\":", index, ",", before, DumpJson(text), after,
                  ",\"logprobs\":null,\"finish_reason\":null}");
  EndChoice(usage, "", out);
}

void EventWriter::EndChoice(const UsageSum& usage, const std::string& fingerprint,
                            std::string& out) const {
  out += "]";
  if (stream_.continuous_usage) {
    absl::StrAppend(&out, ",\"usage\":", DumpJson(usage.RunningJson()));
  } else if (stream_.include_usage) {
    out += ",\"usage\":null";
  }
  AppendFingerprint(fingerprint, out);
  out += "}\n\n";
}

void EventWriter::End(const UsageSum& usage, const std::string& fingerprint,
                      std::string& out) const {
  if (stream_.include_usage) {
    absl::StrAppend(&out, head_, "],\"usage\":", DumpJson(usage.ToJson()));
    AppendFingerprint(fingerprint, out);
    out += "}\n\n";
  }
  out += "data: [DONE]\n\n";
}

void AppendErrorEvent(const ApiError& error, std::string& out) {
  absl::StrAppend(&out, "data: ", OpenAiErrorBody(error), "\n\n");
}

std::string WholeAnswer(const AnswerOptions& options, const char* object, Json choices,
                        const UsageSum& usage, const std::string& fingerprint) {
  Json body = {{"id", options.id},
               {"object", object},
               {"created", options.created},
               {"model", options.model},
               {"choices", std::move(choices)},
               {"usage", usage.ToJson()}};
  if (!fingerprint.empty()) body["system_fingerprint"] = fingerprint;
  return DumpJson(body);
}

}  // namespace baton
