#include "router/trace/trace_tracks.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

using BeginAndEnd = std::pair<int64_t, int64_t>;

RequestTrace TraceOf(const std::vector<BeginAndEnd>& extents) {
  RequestTrace trace;
  for (const auto& [begin, end] : extents) {
    trace.spans.push_back({.begin_ns = begin, .end_ns = end});
  }
  return trace;
}

TEST(TraceTracks, WhatContainsTheOthersIsOnTheirTrack) {
  TraceTracks tracks;
  EXPECT_EQ(tracks.Give(TraceOf({{0, 100}, {0, 90}, {0, 10}, {10, 40}, {40, 90}})),
            (std::vector<int>{0, 0, 0, 0, 0}));
}

TEST(TraceTracks, WhatOverlapsIsOnAnotherAndItsChildrenWithIt) {
  TraceTracks tracks;
  // A prefill, the transfer that overlaps it, and two messages that overlap each other.
  RequestTrace trace = TraceOf({{0, 100}, {10, 50}, {30, 70}, {30, 45}, {40, 60}});
  trace.spans[1].parent = trace.spans[2].parent = 0;
  trace.spans[3].parent = trace.spans[4].parent = 2;
  EXPECT_EQ(tracks.Give(trace), (std::vector<int>{0, 0, 1, 1, 2}));
}

TEST(TraceTracks, RequestsAtOneTimeHaveTracksOfTheirOwnAndLaterOnesReuseThem) {
  TraceTracks tracks;
  EXPECT_EQ(tracks.Give(TraceOf({{0, 100}})), (std::vector<int>{0}));
  EXPECT_EQ(tracks.Give(TraceOf({{50, 150}})), (std::vector<int>{1}));
  EXPECT_EQ(tracks.Give(TraceOf({{20, 160}})), (std::vector<int>{2})) << "it began before";
  EXPECT_EQ(tracks.Give(TraceOf({{100, 200}})), (std::vector<int>{0}));
  EXPECT_EQ(tracks.size(), 3u);
}

TEST(TraceTracks, ThereAreNoMoreThanTheirBound) {
  TraceTracks tracks;
  for (size_t i = 0; i < TraceTracks::kBound; ++i) {
    ASSERT_FALSE(tracks.Give(TraceOf({{0, 100}})).empty());
  }
  EXPECT_TRUE(tracks.Give(TraceOf({{0, 100}})).empty());
  EXPECT_EQ(tracks.Give(TraceOf({{100, 200}})), (std::vector<int>{0}));
}

}  // namespace
}  // namespace baton
