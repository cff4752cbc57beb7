#include "tests/support/mock_sequence.h"

#include "absl/strings/string_view.h"

#include "common/base/check.h"

namespace baton {
namespace {

using internal::v1::OutputToken;
using internal::v1::SequenceSpec;

std::vector<uint32_t> Part(const SequenceSpec& sequence, bool prompt) {
  const auto prompt_end = sequence.token_ids().begin() + static_cast<int>(sequence.prompt_length());
  return prompt ? std::vector<uint32_t>(sequence.token_ids().begin(), prompt_end)
                : std::vector<uint32_t>(prompt_end, sequence.token_ids().end());
}

}  // namespace

MockSequence::MockSequence(const std::vector<uint32_t>& prompt, const v1::SamplingParams& sampling,
                           const MockVocabulary& vocabulary, const std::vector<uint32_t>& output,
                           uint32_t choice)
    : vocabulary_(vocabulary),
      choice_(choice),
      index_(static_cast<uint32_t>(output.size())),
      min_tokens_(sampling.min_tokens()),
      max_tokens_(sampling.max_tokens()),
      ignore_eos_(sampling.ignore_eos()),
      logprobs_(sampling.has_logprobs()),
      history_(ChainHash({.high = sampling.seed(), .low = choice},
                         absl::string_view(reinterpret_cast<const char*>(prompt.data()),
                                           prompt.size() * sizeof(uint32_t)))),
      ended_(index_ >= max_tokens_) {
  for (const uint32_t id : output) Append(id);
}

MockSequence::MockSequence(const SequenceSpec& sequence, const MockVocabulary& vocabulary,
                           uint32_t choice)
    : MockSequence(Part(sequence, true), sequence.sampling(), vocabulary, Part(sequence, false),
                   choice) {}

void MockSequence::Append(uint32_t id) {
  history_ = ChainHash(history_, absl::string_view(reinterpret_cast<const char*>(&id), sizeof(id)));
}

OutputToken MockSequence::Next() {
  BATON_CHECK(!ended_, "a token after the last one");
  const Hash128 hash = history_;
  const auto id = static_cast<uint32_t>(hash.low % vocabulary_.vocab_size);
  Append(id);
  OutputToken token;
  token.set_output_index(index_);
  token.set_choice(choice_);
  token.mutable_token()->set_token_id(id);
  if (logprobs_) token.mutable_token()->set_logprob(-static_cast<float>(hash.high % 1000) / 100);
  const bool eos = id == vocabulary_.eos_id && !ignore_eos_ && index_ >= min_tokens_;
  ended_ = eos || ++index_ >= max_tokens_;
  if (ended_) {
    token.set_ends_sequence(true);
    token.set_finish_reason(eos ? v1::FINISH_REASON_STOP : v1::FINISH_REASON_LENGTH);
  }
  return token;
}

std::vector<OutputToken> MockTokens(const std::vector<uint32_t>& prompt,
                                    const v1::SamplingParams& sampling, uint32_t vocab_size,
                                    uint32_t eos_id, const std::vector<uint32_t>& output) {
  MockSequence sequence(prompt, sampling, {.vocab_size = vocab_size, .eos_id = eos_id}, output,
                        /*choice=*/0);
  std::vector<OutputToken> tokens;
  while (!sequence.ended()) tokens.push_back(sequence.Next());
  return tokens;
}

}  // namespace baton
