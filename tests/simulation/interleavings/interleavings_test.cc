// All orders of events of two requests that share one pair of workers.
//
// BATON_INTERLEAVING_DISTURBANCES sets how many cancels, kills and early timeouts there may be.
#include "tests/simulation/interleavings/interleavings.h"

#include <cstdlib>
#include <iostream>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(Interleavings, NoOrderOfEventsBreaksAnInvariantOrLeavesAnythingBehind) {
  const char* value = std::getenv("BATON_INTERLEAVING_DISTURBANCES");
  InterleavingOptions options;
#ifdef __SANITIZE_ADDRESS__
  options.disturbances = 0;  // the sanitizers make it ten times slower
#endif
  if (value != nullptr) options.disturbances = std::atoi(value);
  const InterleavingResult result = EnumerateInterleavings(options);
  EXPECT_EQ(result.violation, "");
  EXPECT_GT(result.committed, 0u);
  std::cout << result.states << " states, " << result.transitions << " transitions, " << result.ends
            << " ends with " << result.committed << " requests committed; " << options.messages
            << " messages a request, " << options.disturbances << " disturbances\n";
}

}  // namespace
}  // namespace baton
