// Answers of the router, whole and cut into the chunks of a stream, for tests of formats.
#pragma once

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"
#include <nlohmann/json.hpp>

#include "baton/v1/generation.pb.h"
#include "router/api/answer_format.h"

namespace baton {

struct PlayedAnswer {
  std::string text{};
  std::vector<std::string> tokens{};  // bytes of tokens with log probabilities
  v1::FinishReason finish_reason = v1::FINISH_REASON_STOP;
  std::string stop{};  // the stop string that ended it
};

inline v1::TokenLogprob LogprobOfToken(const std::string& bytes, size_t place) {
  v1::TokenLogprob logprob;
  logprob.set_token(bytes);
  logprob.set_logprob(-0.125f * static_cast<float>(place + 1));
  v1::TopLogprob& top = *logprob.add_top_logprobs();
  top.set_token("other");
  top.set_logprob(-3);
  return logprob;
}

inline v1::GenerateResponse ChunkOf(const std::string& text) {
  v1::GenerateResponse response;
  response.mutable_chunk()->set_text(text);
  return response;
}

// 7 tokens of the prompt, 4 of them cached; 9 generated.
inline v1::GenerateResponse EndOf(const PlayedAnswer& answer) {
  v1::GenerateResponse response;
  v1::GenerateComplete& complete = *response.mutable_complete();
  complete.set_finish_reason(answer.finish_reason);
  if (!answer.stop.empty()) complete.set_matched_stop_str(answer.stop);
  complete.mutable_usage()->set_prompt_tokens(7);
  complete.mutable_usage()->set_cached_tokens(4);
  complete.mutable_usage()->set_completion_tokens(9);
  complete.mutable_usage()->set_total_tokens(16);
  complete.mutable_timings()->mutable_total()->set_seconds(3);
  return response;
}

inline std::vector<v1::GenerateResponse> Whole(const PlayedAnswer& answer) {
  v1::GenerateResponse response = EndOf(answer);
  response.mutable_complete()->set_text(answer.text);
  for (size_t i = 0; i < answer.tokens.size(); ++i) {
    *response.mutable_complete()->add_logprobs() = LogprobOfToken(answer.tokens[i], i);
  }
  return {response};
}

// As a stream: the text cut between characters anywhere, tokens with their text or before it.
inline std::vector<v1::GenerateResponse> Streamed(const PlayedAnswer& answer,
                                                  std::mt19937& random) {
  std::vector<v1::GenerateResponse> responses;
  size_t shown = 0, token = 0, token_end = 0;
  while (shown < answer.text.size() || token < answer.tokens.size()) {
    v1::GenerateResponse response;
    v1::GenerateChunk& chunk = *response.mutable_chunk();
    for (size_t more = random() % 4; more > 0 && token < answer.tokens.size(); --more, ++token) {
      *chunk.add_logprobs() = LogprobOfToken(answer.tokens[token], token);
      token_end += answer.tokens[token].size();
    }
    const bool all = answer.tokens.empty() || token == answer.tokens.size();
    const size_t limit = all ? answer.text.size() : std::min(token_end, answer.text.size());
    size_t end = std::min(limit, shown + random() % 6);
    const auto within = [&] {
      return end < answer.text.size() &&
             (static_cast<unsigned char>(answer.text[end]) & 0xC0) == 0x80;
    };
    while (end > shown && within()) --end;
    if (end == shown && all) {  // a character may be longer than the cut
      end = std::min(limit, shown + 1);
      while (within()) ++end;
    }
    chunk.set_text(answer.text.substr(shown, std::max(end, shown) - shown));
    shown = std::max(end, shown);
    responses.push_back(response);
  }
  responses.push_back(EndOf(answer));
  return responses;
}

// Texts, reasoning and calls in any order and number, in ScriptedParser's form.
inline PlayedAnswer RandomAnswer(std::mt19937& random, bool with_tokens) {
  static constexpr const char* kPieces[] = {"~t",         "~r",         "Hi",     " there",
                                            "\n",         " ",          "\u00e9", "\u65e5\u672c",
                                            "\U0001F642", "{\"a\": 1}", "x",      "."};
  PlayedAnswer answer;
  int calls = 0;
  for (size_t i = random() % 24; i > 0; --i) {
    std::string piece;
    if (random() % 8 == 0) {
      piece = "~cget" + std::to_string(calls++) + "~a{\"city\": \"\u00c5\"}~t";
    } else {
      piece = kPieces[random() % std::size(kPieces)];
    }
    answer.text += piece;
  }
  if (random() % 3 == 0) answer.finish_reason = v1::FINISH_REASON_LENGTH;
  if (!with_tokens) return answer;
  for (size_t begin = 0; begin < answer.text.size();) {  // tokens of bytes: cut characters too
    const size_t size = std::min(answer.text.size() - begin, 1 + random() % 5);
    answer.tokens.push_back(answer.text.substr(begin, size));
    begin += size;
  }
  return answer;
}

inline std::string Written(AnswerFormat& format,
                           const std::vector<v1::GenerateResponse>& responses) {
  std::string out;
  for (const v1::GenerateResponse& response : responses) {
    format.Add(0, response, out);
    out += std::string(format.TakeRest());
  }
  format.Finish(out);
  return out + std::string(format.TakeRest());
}

// The data of the named events, each of which has its name as its type.
inline std::vector<nlohmann::ordered_json> EventsOf(absl::string_view stream) {
  std::vector<nlohmann::ordered_json> events;
  while (!stream.empty()) {
    const size_t end = stream.find("\n\n");
    const size_t line = stream.find("\ndata: ");
    if (end == stream.npos || line > end || stream.substr(0, 7) != "event: ") {
      ADD_FAILURE() << "no event: " << stream;
      return events;
    }
    const std::string name(stream.substr(7, line - 7));
    const absl::string_view data = stream.substr(line + 7, end - line - 7);
    events.push_back(nlohmann::ordered_json::parse(data.begin(), data.end()));
    EXPECT_EQ(events.back().at("type"), name);
    stream.remove_prefix(end + 2);
  }
  return events;
}

inline std::vector<std::string> TypesOf(const std::vector<nlohmann::ordered_json>& events) {
  std::vector<std::string> types;
  for (const auto& event : events) types.push_back(event.at("type"));
  return types;
}

}  // namespace baton
