#include "common/engine/steps_in_flight.h"

#include <utility>

#include "common/base/check.h"

namespace baton {

void StepsInFlight::Keep(Leaving leaving) {
  BATON_CHECK(leaving.last_step > done_ && leaving.last_step <= enqueued_, "a step in flight");
  leaving_.push_back(std::move(leaving));
}

std::vector<StepsInFlight::Leaving> StepsInFlight::Done() {
  BATON_CHECK(done_ < enqueued_, "a step in flight");
  ++done_;
  std::vector<Leaving> left;
  std::vector<Leaving> staying;
  for (Leaving& leaving : leaving_) {
    (leaving.last_step <= done_ ? left : staying).push_back(std::move(leaving));
  }
  leaving_ = std::move(staying);
  return left;
}

}  // namespace baton
