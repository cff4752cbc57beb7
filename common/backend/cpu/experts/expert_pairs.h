// The work of a mixture of experts, in the order of its computation.
#pragma once

#include <vector>

#include "absl/types/span.h"

#include "common/backend/cpu/experts/expert_choice.h"

namespace baton {

// A row and one of the experts that it has chosen.
struct ExpertPair {
  int expert = 0;
  int row = 0;
};

// The pairs of a pass: experts ascending, and the rows of each expert ascending. Its memory grows
// with the pairs and is used again. Not thread-safe.
class ExpertPairs {
 public:
  // Sorts the pairs of `choices` [rows, used]. REQUIRES: each choice is below `experts`.
  void Sort(absl::Span<const ExpertChoice> choices, int used, int experts);

  int size() const { return static_cast<int>(pairs_.size()); }
  const ExpertPair& at(int pair) const { return pairs_[static_cast<size_t>(pair)]; }
  // [rows, used]: the pair of each choice. Those of a row ascend.
  absl::Span<const int> places() const { return places_; }
  // The end of the pairs from `first` on that are of the same expert.
  int ExpertEnd(int first) const { return ends_[static_cast<size_t>(at(first).expert)]; }
  // The end of the pairs from `first` on that are computed together: as many whole experts as have
  // at most `most` pairs, or `most` pairs of an expert that has more.
  int WaveEnd(int first, int most) const;

 private:
  std::vector<ExpertPair> pairs_;
  std::vector<int> places_;
  std::vector<int> ends_;  // [experts]: the end of each expert's pairs
};

}  // namespace baton
