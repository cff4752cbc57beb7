#include "tests/support/cuda_shim/thread_order.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace baton::cuda_shim {

void Arrange(FiberOrder order, std::mt19937& random, std::vector<int>& values) {
  if (order == FiberOrder::kReverse) std::reverse(values.begin(), values.end());
  if (order != FiberOrder::kSeeded) return;
  for (size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[random() % i]);
}

void ThreadOrder::Restart(FiberOrder order, std::mt19937& random, int count) {
  const size_t size = static_cast<size_t>(count);
  thread_at_.resize(size);
  place_of_.resize(size);
  std::iota(thread_at_.begin(), thread_at_.end(), 0);
  Arrange(order, random, thread_at_);
  for (size_t place = 0; place < size; ++place) {
    place_of_[static_cast<size_t>(thread_at_[place])] = static_cast<int>(place);
  }
  words_ = (count + 63) / 64;
  for (int word = 0; word < words_; ++word) {
    runnable_[word] = ~uint64_t{0} >> (64 - std::min(64, count - word * 64));
  }
}

void ThreadOrder::MakeRunnable(int thread) {
  const int place = place_of_[static_cast<size_t>(thread)];
  runnable_[place / 64] |= uint64_t{1} << (place % 64);
}

int ThreadOrder::First() const {
  for (int word = 0; word < words_; ++word) {
    if (runnable_[word] == 0) continue;
    return thread_at_[static_cast<size_t>(word * 64 + std::countr_zero(runnable_[word]))];
  }
  return -1;
}

void ThreadOrder::Take(int thread) {
  const int place = place_of_[static_cast<size_t>(thread)];
  runnable_[place / 64] &= ~(uint64_t{1} << (place % 64));
}

}  // namespace baton::cuda_shim
