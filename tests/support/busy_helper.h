// Keeps a thread of a JobPool busy.
#pragma once

#include <future>

#include "gtest/gtest.h"

#include "common/base/job_pool.h"

namespace baton {

// From the constructor to End a thread of the pool does nothing else. Not thread-safe.
class BusyHelper {
 public:
  explicit BusyHelper(JobPool& jobs) {
    EXPECT_TRUE(jobs.TryTake([this, may_end = std::shared_future<void>(end_.get_future())] {
      began_.set_value();
      may_end.wait();
    }));
    began_.get_future().wait();
  }
  // Lets the thread do other jobs. To be called once.
  void End() { end_.set_value(); }

 private:
  std::promise<void> began_;
  std::promise<void> end_;
};

}  // namespace baton
