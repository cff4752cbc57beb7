// Tokens of prompts that often begin alike.
#pragma once

#include <random>
#include <vector>

namespace baton {

class RandomTexts {
 public:
  // `random` outlives it.
  explicit RandomTexts(std::mt19937& random) : random_(random) {
    for (std::vector<int32_t>& text : texts_) {
      for (int i = 0; i < 400; ++i) text.push_back(Random(3));
    }
  }

  std::vector<int32_t> Tokens(int count) {
    const std::vector<int32_t>& text = texts_[random_() % 3];
    std::vector<int32_t> tokens(text.begin(), text.begin() + count);
    for (int i = Random(count + 20); i < count; ++i) tokens[static_cast<size_t>(i)] = Random(2);
    return tokens;
  }

  // The tokens of the next attempt at a request: what it had, changed at times, and goes on.
  std::vector<int32_t> TokensAfter(const std::vector<int32_t>& tokens, size_t most) {
    std::vector<int32_t> next = tokens;
    if (Random(4) == 0) next.resize(1 + random_() % next.size());
    if (Random(4) == 0) next[random_() % next.size()] = Random(3);
    for (int i = Random(40); i > 0 && next.size() < most; --i) next.push_back(Random(3));
    return next;
  }

 private:
  int Random(int below) { return static_cast<int>(random_() % static_cast<unsigned>(below)); }

  std::mt19937& random_;
  std::vector<int32_t> texts_[3];
};

}  // namespace baton
