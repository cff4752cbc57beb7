#include "client/answer_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include <nlohmann/json.hpp>

#include "client/sampling_flags.h"
#include "common/base/terminal_text.h"
#include "common/rpc/duration.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

double Milliseconds(const google::protobuf::Duration& duration) {
  return absl::ToDoubleMilliseconds(DurationFromProto(duration));
}

// " 37 tokens  243.2 tokens/s"
std::string Rate(uint32_t tokens, double milliseconds) {
  if (milliseconds <= 0) return absl::StrFormat("%6d tokens", tokens);
  return absl::StrFormat("%6d tokens  %8.1f tokens/s", tokens, tokens * 1e3 / milliseconds);
}

bool Complete(const v1::GenerateComplete& choice) {
  return choice.finish_reason() != v1::FINISH_REASON_UNSPECIFIED;
}

std::string FinishReasonName(v1::FinishReason reason) {
  switch (reason) {
    case v1::FINISH_REASON_STOP:
      return "stop";
    case v1::FINISH_REASON_LENGTH:
      return "length";
    case v1::FINISH_REASON_ABORT:
      return "abort";
    default:
      return "unspecified";
  }
}

// "stop" or, of several choices, "stop, length".
std::string FinishReasons(const Answer& answer) {
  return absl::StrJoin(answer.choices, ", ", [](std::string* out, const auto& choice) {
    out->append(FinishReasonName(choice.finish_reason()));
  });
}

nlohmann::ordered_json LogprobJson(const v1::TokenLogprob& logprob) {
  nlohmann::ordered_json json = {{"token_id", logprob.token_id()}, {"token", logprob.token()}};
  json["logprob"] = nullptr;  // a prompt's first token has none
  if (logprob.has_logprob()) json["logprob"] = logprob.logprob();
  for (const v1::TopLogprob& top : logprob.top_logprobs()) {
    json["top_logprobs"].push_back(
        {{"token_id", top.token_id()}, {"token", top.token()}, {"logprob", top.logprob()}});
  }
  return json;
}

nlohmann::ordered_json ChoiceJson(const v1::GenerateComplete& choice) {
  nlohmann::ordered_json json;
  json["text"] = choice.text();
  json["token_ids"] = std::vector<uint32_t>(choice.token_ids().begin(), choice.token_ids().end());
  json["finish_reason"] = nullptr;
  if (Complete(choice)) json["finish_reason"] = FinishReasonName(choice.finish_reason());
  for (const v1::TokenLogprob& logprob : choice.logprobs()) {
    json["logprobs"].push_back(LogprobJson(logprob));
  }
  for (const v1::TokenLogprob& logprob : choice.prompt_logprobs()) {
    json["prompt_logprobs"].push_back(LogprobJson(logprob));
  }
  return json;
}

nlohmann::ordered_json TimingsJson(const v1::RequestTimings& timings) {
  return {{"queue_ms", Milliseconds(timings.queue())},
          {"prefill_queue_ms", Milliseconds(timings.prefill_queue())},
          {"prefill_ms", Milliseconds(timings.prefill())},
          {"kv_transfer_ms", Milliseconds(timings.kv_transfer())},
          {"exposed_kv_transfer_ms", Milliseconds(timings.exposed_kv_transfer())},
          {"decode_queue_ms", Milliseconds(timings.decode_queue())},
          {"decode_ms", Milliseconds(timings.decode())},
          {"time_to_first_token_ms", Milliseconds(timings.time_to_first_token())},
          {"total_ms", Milliseconds(timings.total())},
          {"kv_transfer_bytes", timings.kv_transfer_bytes()},
          {"kv_transfer_messages", timings.kv_transfer_messages()},
          {"prefill_worker", timings.prefill_worker()},
          {"decode_worker", timings.decode_worker()},
          {"attempts", timings.attempts()},
          {"local_prefill", timings.local_prefill()},
          {"exact", timings.exact()}};
}

}  // namespace

std::string FormatStats(const Answer& answer, const v1::GenerateRequest& request,
                        const std::optional<KvLayout>& kv) {
  const v1::GenerateComplete& last = answer.choices[answer.last_complete];
  const v1::RequestTimings& timings = last.timings();
  const v1::Usage& usage = last.usage();
  const auto line = [](const char* name, const google::protobuf::Duration& duration,
                       const std::string& rest) {
    return absl::StrFormat("%-14s %10.1f ms  %s\n", name, Milliseconds(duration), rest);
  };
  const uint32_t computed = usage.prompt_tokens() - usage.cached_tokens();
  // The first token comes from the prefill, the others from the decode.
  const uint32_t decoded = usage.completion_tokens() > 0 ? usage.completion_tokens() - 1 : 0;
  const std::string decoded_on = ShownLine(timings.decode_worker());
  const std::string prefilled_on =
      timings.local_prefill() ? decoded_on : ShownLine(timings.prefill_worker());

  v1::SamplingParams sampling = request.sampling_params();
  sampling.set_seed(last.seed());  // the seed may have been drawn
  const bool left_open = !sampling.has_temperature() || !sampling.has_top_p();
  std::string out = absl::StrFormat("%-14s %s%s\n", "sampling", SamplingText(sampling),
                                    left_open ? "; the rest by the server's defaults" : "");
  absl::StrAppend(&out, line("queue", timings.queue(), ""));
  absl::StrAppend(&out, line("prefill queue", timings.prefill_queue(), ""));
  absl::StrAppend(&out, line("prefill", timings.prefill(),
                             absl::StrCat(Rate(computed, Milliseconds(timings.prefill())), "  on ",
                                          prefilled_on)));
  if (timings.kv_transfer_messages() > 0) {
    absl::StrAppend(&out,
                    line("KV transfer", timings.kv_transfer(),
                         absl::StrFormat("%6.2f MB in %d messages, %.1f ms of it exposed",
                                         static_cast<double>(timings.kv_transfer_bytes()) * 1e-6,
                                         timings.kv_transfer_messages(),
                                         Milliseconds(timings.exposed_kv_transfer()))));
  }
  absl::StrAppend(&out, line("decode queue", timings.decode_queue(), ""));
  absl::StrAppend(
      &out, line("decode", timings.decode(),
                 absl::StrCat(Rate(decoded, Milliseconds(timings.decode())), "  on ", decoded_on)));
  const uint32_t guessed = usage.accepted_prediction_tokens() + usage.rejected_prediction_tokens();
  if (guessed > 0) {
    absl::StrAppendFormat(&out, "%-14s %d of %d guessed tokens came true\n", "speculation",
                          usage.accepted_prediction_tokens(), guessed);
  }
  if (kv.has_value()) {
    const int tokens = static_cast<int>(usage.total_tokens());
    absl::StrAppendFormat(
        &out, "%-14s %d tokens: %s\n", "KV memory", tokens,
        KvMemoryText(*kv, static_cast<int>(kv->groups.BlocksOf(tokens, kv->block_size))));
  }
  absl::StrAppend(&out, line("first token", timings.time_to_first_token(), ""));
  absl::StrAppend(&out,
                  line("total", timings.total(),
                       absl::StrFormat("%d attempt%s, finished by %s", timings.attempts(),
                                       timings.attempts() == 1 ? "" : "s", FinishReasons(answer))));
  return out;
}

std::string FormatJson(const Answer& answer, absl::Duration timeout) {
  nlohmann::ordered_json json;
  if (answer.choices.size() == 1) {
    json = ChoiceJson(answer.choices[0]);
  } else {
    for (const v1::GenerateComplete& choice : answer.choices) {
      json["choices"].push_back(ChoiceJson(choice));
    }
  }
  if (const auto& last = answer.choices[answer.last_complete]; Complete(last)) {
    json["usage"] = {{"prompt_tokens", last.usage().prompt_tokens()},
                     {"completion_tokens", last.usage().completion_tokens()},
                     {"total_tokens", last.usage().total_tokens()},
                     {"cached_tokens", last.usage().cached_tokens()},
                     {"accepted_prediction_tokens", last.usage().accepted_prediction_tokens()},
                     {"rejected_prediction_tokens", last.usage().rejected_prediction_tokens()}};
    json["seed"] = last.seed();
    json["timings"] = TimingsJson(last.timings());
  }
  if (!answer.status.ok()) {
    json["error"] = {{"code", absl::StatusCodeToString(answer.status.code())},
                     {"reason", ErrorReason(answer.status)},
                     {"message", DescribeFailure(answer, timeout)}};
  }
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

std::string DescribeFailure(const Answer& answer, absl::Duration timeout) {
  const absl::Status& status = answer.status;
  // The router ends a request without progress by the same code, whatever its deadline.
  const std::string reason = ErrorReason(status);
  if (absl::IsDeadlineExceeded(status) && (reason.empty() || reason == "DEADLINE_EXCEEDED")) {
    int tokens = 0;
    for (const v1::GenerateComplete& choice : answer.choices) tokens += choice.token_ids_size();
    return absl::StrFormat(
        "the deadline of %s (--timeout) passed %s", absl::FormatDuration(timeout),
        tokens == 0 ? "before the first token"
                    : absl::StrFormat("after %d token%s", tokens, tokens == 1 ? "" : "s"));
  }
  const bool unreachable = absl::IsUnavailable(status) && reason.empty();
  return absl::StrCat(status.ToString(absl::StatusToStringMode::kWithNoExtraData),
                      unreachable ? "; `baton serve --model FILE` starts a server" : "");
}

}  // namespace baton
