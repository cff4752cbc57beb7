// The sequences of mock workers, whose next token is a hash of prompt, output and seed.
#pragma once

#include <cstdint>
#include <vector>

#include "baton/internal/v1/common.pb.h"
#include "common/base/hash.h"

namespace baton {

// The vocabulary: ids below `vocab_size`, of which `eos_id` ends a sequence unless ignore_eos is
// set.
struct MockVocabulary {
  uint32_t vocab_size = 26;
  uint32_t eos_id = 0;
};

// One choice of a request. Not thread-safe.
class MockSequence {
 public:
  // Makes a choice that has the tokens `output` already.
  MockSequence(const std::vector<uint32_t>& prompt, const v1::SamplingParams& sampling,
               const MockVocabulary& vocabulary, const std::vector<uint32_t>& output,
               uint32_t choice);
  // Makes a choice of an attempt at a request.
  MockSequence(const internal::v1::SequenceSpec& sequence, const MockVocabulary& vocabulary,
               uint32_t choice);

  bool ended() const { return ended_; }
  internal::v1::OutputToken Next();  // REQUIRES: !ended()

 private:
  void Append(uint32_t id);

  const MockVocabulary vocabulary_;
  uint32_t choice_, index_, min_tokens_, max_tokens_;
  bool ignore_eos_, logprobs_;
  Hash128 history_;
  bool ended_ = false;
};

// All tokens that follow `output` in the first choice.
std::vector<internal::v1::OutputToken> MockTokens(const std::vector<uint32_t>& prompt,
                                                  const v1::SamplingParams& sampling,
                                                  uint32_t vocab_size, uint32_t eos_id,
                                                  const std::vector<uint32_t>& output = {});

}  // namespace baton
