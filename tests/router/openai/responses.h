// Responses of the router, and the events of streams, for tests of answers.
#pragma once

#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include <nlohmann/json.hpp>

#include "baton/v1/generation.pb.h"
#include "common/base/check.h"
#include "router/openai/answer_json.h"

namespace baton {

inline v1::TokenLogprob Logprob(const std::string& token, float logprob,
                                const std::vector<std::pair<std::string, float>>& top = {}) {
  v1::TokenLogprob result;
  result.set_token(token);
  result.set_logprob(logprob);
  for (const auto& [rival, number] : top) {
    v1::TopLogprob& entry = *result.add_top_logprobs();
    entry.set_token(rival);
    entry.set_logprob(number);
  }
  return result;
}

inline v1::GenerateResponse Chunk(uint32_t index, const std::string& text,
                                  const std::vector<v1::TokenLogprob>& logprobs = {}) {
  v1::GenerateResponse response;
  response.mutable_chunk()->set_index(index);
  response.mutable_chunk()->set_text(text);
  for (const v1::TokenLogprob& logprob : logprobs) {
    *response.mutable_chunk()->add_logprobs() = logprob;
  }
  return response;
}

inline v1::GenerateResponse Complete(uint32_t index, const std::string& text,
                                     v1::FinishReason reason = v1::FINISH_REASON_STOP,
                                     const std::vector<v1::TokenLogprob>& logprobs = {}) {
  v1::GenerateResponse response;
  v1::GenerateComplete& complete = *response.mutable_complete();
  complete.set_index(index);
  complete.set_text(text);
  complete.set_finish_reason(reason);
  complete.set_system_fingerprint("fp");
  complete.set_seed(7);
  complete.mutable_timings()->mutable_total()->set_nanos(1500000);
  for (const v1::TokenLogprob& logprob : logprobs) *complete.add_logprobs() = logprob;
  return response;
}

// The last complete of a prompt.
inline v1::GenerateResponse Last(v1::GenerateResponse response, uint32_t prompt_tokens,
                                 uint32_t completion_tokens) {
  v1::Usage& usage = *response.mutable_complete()->mutable_usage();
  usage.set_prompt_tokens(prompt_tokens);
  usage.set_completion_tokens(completion_tokens);
  usage.set_total_tokens(prompt_tokens + completion_tokens);
  usage.set_cached_tokens(2);
  usage.set_accepted_prediction_tokens(3);
  usage.set_rejected_prediction_tokens(1);
  return response;
}

// The events before "[DONE]", which ends `stream`.
inline std::vector<nlohmann::ordered_json> Events(const std::string& stream) {
  std::vector<nlohmann::ordered_json> events;
  std::vector<std::string> parts = absl::StrSplit(stream, "\n\n");
  BATON_CHECK(parts.size() >= 2 && parts.back().empty(), "every event must end with an empty line");
  BATON_CHECK(parts[parts.size() - 2] == "data: [DONE]", "the stream must end with [DONE]");
  parts.resize(parts.size() - 2);
  for (const std::string& part : parts) {
    events.push_back(nlohmann::ordered_json::parse(absl::StripPrefix(part, "data: ")));
  }
  return events;
}

// A text cut at random between characters of one byte.
template <typename Random>
std::vector<std::string> RandomPieces(const std::string& text, Random& random) {
  std::vector<std::string> pieces;
  for (size_t begin = 0; begin < text.size();) {
    const size_t size = 1 + random() % 5;
    pieces.push_back(text.substr(begin, size));
    begin += size;
  }
  return pieces;
}

}  // namespace baton
