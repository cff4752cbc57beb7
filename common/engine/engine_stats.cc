#include "common/engine/engine_stats.h"

namespace baton {

void EngineStatsBoard::StepDone(absl::Time now, int rows) {
  const std::lock_guard lock(mutex_);
  rate_.Add(now, rows);
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
  return stats;
}

}  // namespace baton
