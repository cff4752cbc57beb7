// Collects the log probabilities of a request's prompt from a worker's messages, and converts them
// for the client.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "baton/internal/v1/common.pb.h"
#include "baton/v1/generation.pb.h"
#include "router/request/choice_output.h"

namespace baton {

// The prompt log probabilities that one attempt has sent so far, in few bytes. Not thread-safe.
class PromptLogprobs {
 public:
  struct Shape {
    size_t prompt_tokens = 0;
    size_t likeliest = 0;  // number of most likely tokens at each place
    size_t vocab_size = 0;
  };
  explicit PromptLogprobs(const Shape& shape) : shape_(shape) {}

  // Adds a worker's next message. If it is invalid, returns the reason and adds nothing.
  std::optional<std::string> Add(const internal::v1::PromptLogprobs& message);
  // Whether every prompt token but the first, which has none, has its log probability.
  bool complete() const { return logprobs_.size() + 1 >= shape_.prompt_tokens; }

  // Returns the client's entries, with the bytes of each token, for the tokens from `first` on:
  // until the prompt ends or they have more than `most_bytes`, but at least one. REQUIRES:
  // complete(); `prompt_token_ids` [prompt_tokens] are in the table; first < prompt_tokens.
  google::protobuf::RepeatedPtrField<v1::TokenLogprob> ForClient(
      const std::vector<uint32_t>& prompt_token_ids, const TokenTable& table, size_t first,
      size_t most_bytes) const;

 private:
  Shape shape_;
  std::vector<float> logprobs_;          // [prompt_tokens - 1], from the second prompt token on
  std::vector<uint32_t> top_token_ids_;  // [logprobs, likeliest]
  std::vector<float> top_logprobs_;      // [logprobs, likeliest]
};

}  // namespace baton
