#include "common/speculation/ngram_proposer.h"

#include <algorithm>

namespace baton {
namespace {

constexpr size_t kTokens = 3;       // tokens of an n-gram
constexpr int kMostPlaces = 16;     // places that are compared for a proposal
constexpr size_t kMostAgreed = 32;  // tokens before a place that are compared

// Different n-grams may have one key, so a place that it finds is compared.
uint64_t KeyOf(absl::Span<const int32_t> token_ids, size_t last) {
  uint64_t key = 0;
  for (size_t i = last + 1 - kTokens; i <= last; ++i) {
    key = (key << 21) + static_cast<uint64_t>(token_ids[i]);
  }
  return key;
}

// How many tokens up to `place` agree with the last tokens.
size_t AgreedTokens(absl::Span<const int32_t> token_ids, size_t place) {
  const size_t most = std::min(kMostAgreed, place + 1);
  const int32_t* last = token_ids.data() + token_ids.size() - 1;
  const int32_t* at = token_ids.data() + place;
  size_t agreed = 0;
  while (agreed < most && *(last - agreed) == *(at - agreed)) ++agreed;
  return agreed;
}

}  // namespace

std::vector<int32_t> NgramProposer::Propose(absl::Span<const int32_t> token_ids, int most) {
  Index(token_ids);
  const size_t count = token_ids.size();
  if (count < kTokens) return {};
  int32_t best = -1;
  size_t best_agreed = kTokens - 1;
  const auto compare = [&](int32_t place) {
    const size_t agreed = AgreedTokens(token_ids, static_cast<size_t>(place));
    if (agreed <= best_agreed) return;
    best = place;
    best_agreed = agreed;
  };
  if (place_ >= 0) compare(place_ + static_cast<int32_t>(count - proposed_at_));
  const auto latest = latest_.find(KeyOf(token_ids, count - 1));
  int32_t place = latest == latest_.end() ? -1 : latest->second;
  for (int i = 0; i < kMostPlaces && place >= 0; ++i) {
    compare(place);
    place = earlier_[static_cast<size_t>(place)];
  }
  place_ = best;
  proposed_at_ = count;
  std::vector<int32_t> proposed;
  if (best < 0) return proposed;
  for (size_t next = static_cast<size_t>(best) + 1; proposed.size() < static_cast<size_t>(most);
       ++next) {
    proposed.push_back(next < count ? token_ids[next] : proposed[next - count]);
  }
  return proposed;
}

// Enters the n-grams that something follows, so not the last one.
void NgramProposer::Index(absl::Span<const int32_t> token_ids) {
  for (size_t last = earlier_.size(); last + 1 < token_ids.size(); ++last) {
    if (last + 1 < kTokens) {
      earlier_.push_back(-1);
      continue;
    }
    const auto [entry, is_new] =
        latest_.try_emplace(KeyOf(token_ids, last), static_cast<int32_t>(last));
    earlier_.push_back(is_new ? -1 : entry->second);
    entry->second = static_cast<int32_t>(last);
  }
}

}  // namespace baton
