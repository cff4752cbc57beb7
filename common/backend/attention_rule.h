// The attention parameters of a kind of layer.
#pragma once

namespace baton {

// Which keys the queries of a layer see, and how their scores are scaled.
struct AttentionRule {
  float scale = 1;  // factor of every query . key
  int window = 0;   // keys that a query sees, its own included; 0: all up to its own
  // [heads] in the backend's memory, or null. A sink is one more score of its head, which takes its
  // share of the softmax and has no value.
  const float* sinks = nullptr;

  // The first key that a query at `position` sees; the last is its own.
  constexpr int FirstKey(int position) const {
    return window == 0 || window > position ? 0 : position - window + 1;
  }
};

}  // namespace baton
