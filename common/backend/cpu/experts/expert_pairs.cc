#include "common/backend/cpu/experts/expert_pairs.h"

#include <cstddef>

namespace baton {

void ExpertPairs::Sort(absl::Span<const ExpertChoice> choices, int used, int experts) {
  ends_.assign(static_cast<size_t>(experts), 0);
  for (const ExpertChoice& choice : choices) ++ends_[static_cast<size_t>(choice.expert)];
  int before = 0;
  for (int& end : ends_) {  // each expert's first pair, which grows to its end
    const int count = end;
    end = before;
    before += count;
  }
  pairs_.resize(choices.size());
  places_.resize(choices.size());
  for (size_t i = 0; i < choices.size(); ++i) {
    const int expert = choices[i].expert;
    const int place = ends_[static_cast<size_t>(expert)]++;
    pairs_[static_cast<size_t>(place)] = {expert, static_cast<int>(i) / used};
    places_[i] = place;
  }
}

int ExpertPairs::WaveEnd(int first, int most) const {
  int end = first;
  while (end < size() && ExpertEnd(end) - first <= most) end = ExpertEnd(end);
  return end > first ? end : first + most;
}

}  // namespace baton
