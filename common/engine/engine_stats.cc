#include "common/engine/engine_stats.h"

#include <algorithm>

namespace baton {

void StepSizes::Add(int step_tokens) {
  const auto bound = std::lower_bound(kBounds.begin(), kBounds.end(), step_tokens);
  ++counts[static_cast<size_t>(bound - kBounds.begin())];
  tokens += static_cast<uint64_t>(step_tokens);
}

void EngineStatsBoard::StepDone(absl::Time now, int rows) {
  const std::lock_guard lock(mutex_);
  rate_.Add(now, rows);
  steps_.Add(rows);
}

void EngineStatsBoard::Publish(const EngineStats& stats) {
  const std::lock_guard lock(mutex_);
  published_ = stats;
}

EngineStats EngineStatsBoard::Read(absl::Time now) const {
  const std::lock_guard lock(mutex_);
  EngineStats stats = published_;
  stats.progress = progress_.load(std::memory_order_relaxed);
  stats.tokens_per_second = rate_.PerSecond(now);
  stats.steps = steps_;
  return stats;
}

}  // namespace baton
