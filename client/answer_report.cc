#include "client/answer_report.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include <nlohmann/json.hpp>

#include "common/rpc/duration.h"

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

}  // namespace

std::string FormatStats(const Answer& answer) {
  const v1::RequestTimings& timings = answer.complete.timings();
  const v1::Usage& usage = answer.complete.usage();
  const auto line = [](const char* name, const google::protobuf::Duration& duration,
                       const std::string& rest) {
    return absl::StrFormat("%-14s %10.1f ms  %s\n", name, Milliseconds(duration), rest);
  };
  const uint32_t computed = usage.prompt_tokens() - usage.cached_tokens();
  // The first token comes from the prefill; each of the others took a step of the decode.
  const uint32_t decoded = usage.completion_tokens() > 0 ? usage.completion_tokens() - 1 : 0;
  const std::string prefilled_on =
      timings.local_prefill() ? timings.decode_worker() : timings.prefill_worker();

  std::string out = line("queue", timings.queue(), "");
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
  absl::StrAppend(&out, line("decode", timings.decode(),
                             absl::StrCat(Rate(decoded, Milliseconds(timings.decode())), "  on ",
                                          timings.decode_worker())));
  absl::StrAppend(&out, line("first token", timings.time_to_first_token(), ""));
  absl::StrAppend(&out, line("total", timings.total(),
                             absl::StrFormat("%d attempt%s, finished by %s", timings.attempts(),
                                             timings.attempts() == 1 ? "" : "s",
                                             FinishReasonName(answer.complete.finish_reason()))));
  return out;
}

std::string FormatJson(const Answer& answer) {
  const v1::GenerateComplete& complete = answer.complete;
  const v1::RequestTimings& timings = complete.timings();
  nlohmann::ordered_json json;
  json["text"] = answer.text;
  json["token_ids"] =
      std::vector<uint32_t>(complete.token_ids().begin(), complete.token_ids().end());
  json["finish_reason"] = FinishReasonName(complete.finish_reason());
  json["usage"] = {{"prompt_tokens", complete.usage().prompt_tokens()},
                   {"completion_tokens", complete.usage().completion_tokens()},
                   {"total_tokens", complete.usage().total_tokens()},
                   {"cached_tokens", complete.usage().cached_tokens()}};
  json["timings"] = {{"queue_ms", Milliseconds(timings.queue())},
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
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
}

}  // namespace baton
