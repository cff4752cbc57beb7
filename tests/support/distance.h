// The distance of one model's distributions of the next token from another's.
#pragma once

#include <vector>

namespace baton {

// Sums over tokens of KL(reference || ours), each over the whole vocabulary.
struct Distance {
  double kl_sum = 0;
  int tokens = 0;
  int same_top = 0;  // number of tokens after which both models find the same next token likeliest

  // Adds the distances between two tensors of logits [tokens, vocab_size].
  void Add(const std::vector<float>& reference, const std::vector<float>& ours, int vocab_size);
  double Kl() const { return kl_sum / tokens; }
};

}  // namespace baton
