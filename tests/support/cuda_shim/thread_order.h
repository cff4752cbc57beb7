// Which of a block's threads goes on next.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/cuda_shim/fibers.h"

namespace baton::cuda_shim {

// `values` in the order's order, from an ascending one.
void Arrange(FiberOrder order, std::mt19937& random, std::vector<int>& values);

class ThreadOrder {
 public:
  // Threads 0 to count - 1, of which all can go on; drawn anew where the order is drawn.
  void Restart(FiberOrder order, std::mt19937& random, int count);
  void MakeRunnable(int thread);
  // The first that can go on, or -1.
  int First() const;
  // It goes on: until it is made runnable again, it is not among them.
  void Take(int thread);

 private:
  std::vector<int> thread_at_;                 // [threads]: by place
  std::vector<int> place_of_;                  // [threads]
  uint64_t runnable_[kThreadsMost / 64] = {};  // bits, by place
  int words_ = 0;
};

}  // namespace baton::cuda_shim
