// The order in which the threads of a block continue.
#pragma once

#include <cstdint>
#include <random>
#include <vector>

#include "tests/support/cuda_shim/fibers.h"

namespace baton::cuda_shim {

// Brings ascending `values` into the given order.
void Arrange(FiberOrder order, std::mt19937& random, std::vector<int>& values);

class ThreadOrder {
 public:
  // Begins with threads 0 to count - 1, all runnable. Draws a new permutation if the order has one.
  void Restart(FiberOrder order, std::mt19937& random, int count);
  void MakeRunnable(int thread);
  // The first runnable thread, or -1.
  int First() const;
  // Takes a thread out of the runnable ones, since it continues.
  void Take(int thread);

 private:
  std::vector<int> thread_at_;                 // [place]: thread
  std::vector<int> place_of_;                  // [thread]: place
  uint64_t runnable_[kThreadsMost / 64] = {};  // one bit for each place
  int words_ = 0;
};

}  // namespace baton::cuda_shim
