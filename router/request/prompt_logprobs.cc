#include "router/request/prompt_logprobs.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"

namespace baton {

std::optional<std::string> PromptLogprobs::Add(const internal::v1::PromptLogprobs& message) {
  const auto tokens = static_cast<size_t>(message.logprobs_size());
  const size_t next = logprobs_.size() + 1;
  if (message.first_token() != next) {
    return absl::StrCat(
        "log probabilities from prompt token ", message.first_token(), " on where ", next,
        message.first_token() < next ? " was next (doubled)" : " was next (missing)");
  }
  if (tokens == 0 || next + tokens > shape_.prompt_tokens) {
    return absl::StrCat("log probabilities of ", tokens, " tokens from prompt token ", next,
                        " on, of ", shape_.prompt_tokens);
  }
  const size_t tops = tokens * shape_.likeliest;
  if (static_cast<size_t>(message.top_token_ids_size()) != tops ||
      static_cast<size_t>(message.top_logprobs_size()) != tops) {
    return absl::StrCat("not the ", shape_.likeliest,
                        " likeliest tokens at each place of a prompt");
  }
  const auto& ids = message.top_token_ids();
  if (std::any_of(ids.begin(), ids.end(), [&](uint32_t id) { return id >= shape_.vocab_size; })) {
    return std::string("a likely token of the prompt that is outside the vocabulary");
  }
  logprobs_.insert(logprobs_.end(), message.logprobs().begin(), message.logprobs().end());
  top_token_ids_.insert(top_token_ids_.end(), ids.begin(), ids.end());
  top_logprobs_.insert(top_logprobs_.end(), message.top_logprobs().begin(),
                       message.top_logprobs().end());
  return std::nullopt;
}

google::protobuf::RepeatedPtrField<v1::TokenLogprob> PromptLogprobs::ForClient(
    const std::vector<uint32_t>& prompt_token_ids, const TokenTable& table, size_t first,
    size_t most_bytes) const {
  BATON_CHECK(complete(), "all log probabilities of the prompt");
  constexpr size_t kNumbersBytes = 16;  // bytes of an entry on the wire, without the token's
  google::protobuf::RepeatedPtrField<v1::TokenLogprob> tokens;
  size_t bytes = 0;
  const auto fill = [&](uint32_t id, auto& entry) {
    entry.set_token_id(id);
    entry.set_token(std::string(table.bytes[id]));
    bytes += kNumbersBytes + table.bytes[id].size();
  };
  for (size_t place = first; place < prompt_token_ids.size() && bytes <= most_bytes; ++place) {
    v1::TokenLogprob& token = *tokens.Add();
    fill(prompt_token_ids[place], token);
    if (place == 0) continue;
    token.set_logprob(logprobs_[place - 1]);
    for (size_t i = (place - 1) * shape_.likeliest; i < place * shape_.likeliest; ++i) {
      v1::TopLogprob& top = *token.add_top_logprobs();
      fill(top_token_ids_[i], top);
      top.set_logprob(top_logprobs_[i]);
    }
  }
  return tokens;
}

}  // namespace baton
