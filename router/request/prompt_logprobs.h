// The log probabilities of a request's prompt: as a worker sends them, and as the client gets them.
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

// Those that one attempt has sent so far, in few bytes. Not thread-safe.
class PromptLogprobs {
 public:
  struct Shape {
    size_t prompt_tokens = 0;
    size_t likeliest = 0;  // tokens that are told at each place
    size_t vocab_size = 0;
  };
  explicit PromptLogprobs(const Shape& shape) : shape_(shape) {}

  // Takes a worker's next message. Returns what is wrong with it; then it takes nothing.
  std::optional<std::string> Add(const internal::v1::PromptLogprobs& message);
  // Those of all tokens but the first, which has none, are there.
  bool complete() const { return logprobs_.size() + 1 >= shape_.prompt_tokens; }

  // As the client gets them, the tokens' bytes too: those of the tokens from `first` on, until they
  // have more than `most_bytes` or the prompt ends. At least one. REQUIRES: complete();
  // `prompt_token_ids` [prompt_tokens] are in the table; first < prompt_tokens.
  google::protobuf::RepeatedPtrField<v1::TokenLogprob> ForClient(
      const std::vector<uint32_t>& prompt_token_ids, const TokenTable& table, size_t first,
      size_t most_bytes) const;

 private:
  Shape shape_;
  std::vector<float> logprobs_;          // of the second prompt token, the third, and so on
  std::vector<uint32_t> top_token_ids_;  // [logprobs, likeliest]
  std::vector<float> top_logprobs_;      // [logprobs, likeliest]
};

}  // namespace baton
