// Log probabilities in the two shapes that OpenAI's APIs have. The same float is the same number
// wherever it stands.
#pragma once

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "google/protobuf/repeated_field.h"
#include <nlohmann/json.hpp>

#include "baton/v1/generation.pb.h"

namespace baton {

using TokenLogprobs = google::protobuf::RepeatedPtrField<v1::TokenLogprob>;

// Appends a chat's {"token", "logprob", "bytes", "top_logprobs"} for each token.
void AppendChatLogprobs(const TokenLogprobs& tokens, nlohmann::ordered_json& content);

// Where the tokens of a text begin in it, in characters. Tokens that are not in the text, such as
// special ones, begin where the next one does. Not thread-safe.
class TextOffsets {
 public:
  // The text goes on; it may be behind the tokens, where its end is held back.
  void AddText(absl::string_view text) { text_.append(text.data(), text.size()); }
  // Where the next token, of these bytes, begins.
  size_t Next(absl::string_view bytes);

 private:
  std::string text_;       // known text, whole characters
  size_t bytes_ = 0;       // bytes of the text before the next token
  size_t characters_ = 0;  // characters of the text before the next token
  std::string pending_;    // first bytes of a character that later tokens complete
};

// Completions' {"tokens", "token_logprobs", "top_logprobs", "text_offset"}: lists of one length. A
// token without a log probability, the first of a prompt, has null. "top_logprobs" has the token
// itself too, as OpenAI's has; of tokens with one text the likeliest.
class CompletionLogprobs {
 public:
  void Append(const TokenLogprobs& tokens, TextOffsets& offsets);
  nlohmann::ordered_json ToJson() const;

 private:
  nlohmann::ordered_json tokens_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json token_logprobs_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json top_logprobs_ = nlohmann::ordered_json::array();
  nlohmann::ordered_json text_offset_ = nlohmann::ordered_json::array();
};

}  // namespace baton
