// How far one model's distributions of the next token are from another's.
#pragma once

#include <vector>

namespace baton {

// Sums over tokens; KL(reference || ours) is over the whole vocabulary.
struct Distance {
  double kl_sum = 0;
  int tokens = 0;
  int same_top = 0;  // tokens whose most probable successor is the same

  // `reference`, `ours`: logits [tokens, vocab_size].
  void Add(const std::vector<float>& reference, const std::vector<float>& ours, int vocab_size);
  double Kl() const { return kl_sum / tokens; }
};

}  // namespace baton
