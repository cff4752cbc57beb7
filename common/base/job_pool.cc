#include "common/base/job_pool.h"

#include <optional>
#include <utility>

#include "absl/time/time.h"

#include "common/base/check.h"

namespace baton {

JobPool::JobPool(int threads) : waiting_(static_cast<size_t>(threads)) {
  BATON_CHECK(threads >= 0, "a number of threads");
  for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
}

JobPool::~JobPool() {
  waiting_.Close();
  for (std::thread& thread : threads_) thread.join();
}

bool JobPool::TryTake(std::function<void()>&& job) {
  return waiting_.TryPush(std::move(job)) == Pushed::kYes;
}

void JobPool::Do(std::function<void()> job) {
  // A job that is not taken is as it was.
  if (!TryTake(std::move(job))) job();  // NOLINT(bugprone-use-after-move)
}

void JobPool::Run() {
  while (std::optional<std::function<void()>> job = waiting_.Pop(absl::InfiniteDuration())) {
    (*job)();
  }
}

}  // namespace baton
