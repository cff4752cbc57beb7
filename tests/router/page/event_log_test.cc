#include "router/page/event_log.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(EventLog, KeepsTheLastEventsInTheirOrder) {
  EventLog log;
  for (size_t i = 0; i < EventLog::kBound + 5; ++i) {
    log.Add({.kind = FleetEvent::Kind::kFailed, .text = std::to_string(i)});
  }
  const std::vector<FleetEvent> events = log.Get();
  ASSERT_EQ(events.size(), EventLog::kBound);
  EXPECT_EQ(events.front().text, "5");
  EXPECT_EQ(events.front().number, 6u);
  EXPECT_EQ(events.back().number, EventLog::kBound + 5);
  EXPECT_GT(events.back().at, 0);
}

}  // namespace
}  // namespace baton
