#include "router/front/preparing_pool.h"

#include <optional>

namespace baton {

PreparingPool::PreparingPool(int threads, size_t capacity) : jobs_(capacity) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] {
      // An empty answer of a queue without a time limit means that it was closed.
      while (std::optional<Job> job = jobs_.Pop(absl::InfiniteDuration())) (*job)();
    });
  }
}

PreparingPool::~PreparingPool() {
  Stop();
  jobs_.Close();
  for (std::thread& thread : threads_) thread.join();
}

}  // namespace baton
