#include "router/front/preparing_pool.h"

#include <optional>
#include <utility>

namespace baton {

PreparingPool::PreparingPool(int threads, size_t capacity) : jobs_(capacity) {
  for (int i = 0; i < threads; ++i) {
    threads_.emplace_back([this] {
      // An empty answer of a queue without a time limit means that it was closed.
      while (std::optional<Job> job = jobs_.Pop(absl::InfiniteDuration())) (*job)();
    });
  }
}

PreparingPool::~PreparingPool() { Close(); }

void PreparingPool::Close() {
  Stop();
  jobs_.Close();
  for (std::thread& thread : std::exchange(threads_, {})) thread.join();
}

}  // namespace baton
