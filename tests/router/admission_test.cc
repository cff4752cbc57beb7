#include "router/admission.h"

#include <gtest/gtest.h>

#include <vector>

#include "common/rpc/status.h"

namespace baton {
namespace {

TEST(Admission, RefusesMoreRequestsThanItsLimitUntilOneGoes) {
  Admission admission({.requests = 2, .bytes = 1000});
  auto first = admission.Admit(1);
  auto second = admission.Admit(1);
  ASSERT_TRUE(first.ok() && second.ok());
  const absl::Status refused = admission.Admit(1).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted);
  EXPECT_TRUE(RetryDelay(refused).has_value());
  first->Release();
  EXPECT_TRUE(admission.Admit(1).ok());
}

TEST(Admission, RefusesMoreBytesThanItsLimitButNotALargeRequestAlone) {
  Admission admission({.requests = 10, .bytes = 100});
  {
    const auto large = admission.Admit(500);
    ASSERT_TRUE(large.ok());
    EXPECT_EQ(admission.Admit(1).status().code(), absl::StatusCode::kResourceExhausted);
  }
  EXPECT_EQ(admission.waiting_bytes(), 0u);
  EXPECT_TRUE(admission.Admit(100).ok());
}

TEST(Admission, ATicketGivesItselfBackOnceHoweverItMoves) {
  Admission admission({.requests = 10, .bytes = 100});
  std::vector<Admission::Ticket> tickets;
  for (uint64_t bytes : {1, 2, 3}) tickets.push_back(*admission.Admit(bytes));
  Admission::Ticket moved = std::move(tickets[0]);
  tickets[0] = std::move(tickets[1]);
  EXPECT_EQ(admission.waiting_requests(), 3u);
  EXPECT_EQ(admission.waiting_bytes(), 6u);
  moved.Release();
  moved.Release();
  EXPECT_EQ(admission.waiting_bytes(), 5u);
  tickets.clear();
  EXPECT_EQ(admission.waiting_requests(), 0u);
}

}  // namespace
}  // namespace baton
