#include "common/jinja/workspace.h"

#include <time.h>

#include <atomic>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace baton::jinja {
namespace {

TEST(Workspace, StepsEndAtTheirLimitAndStayEnded) {
  Workspace workspace;
  EXPECT_TRUE(workspace.Step(kMaxSteps).ok());
  EXPECT_EQ(workspace.Step().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(workspace.Step(std::numeric_limits<size_t>::max()).code(),
            absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(workspace.Step().code(), absl::StatusCode::kResourceExhausted);
}

TEST(Workspace, AStepThatDoesNotFitUsesUpTheRest) {
  Workspace workspace;
  EXPECT_FALSE(workspace.Step(kMaxSteps + 1).ok());
  EXPECT_FALSE(workspace.Step(1).ok());
}

TEST(Workspace, ReadingTextCostsAStepForEach64Bytes) {
  Workspace workspace;
  ASSERT_TRUE(workspace.Step(kMaxSteps - 1).ok());
  EXPECT_TRUE(workspace.StepBytes(63).ok());
  EXPECT_TRUE(workspace.StepBytes(64).ok());
  EXPECT_FALSE(workspace.StepBytes(64).ok());
}

TEST(Workspace, CheckingForRoomTakesNoneAndATextDoes) {
  Workspace workspace;
  EXPECT_TRUE(workspace.CheckRoom(kMaxMemoryBytes).ok());
  EXPECT_TRUE(workspace.CheckRoom(kMaxMemoryBytes).ok());
  EXPECT_FALSE(workspace.CheckRoom(kMaxMemoryBytes + 1).ok());
  ASSERT_TRUE(workspace.NewText("text", true).ok());
  EXPECT_EQ(workspace.CheckRoom(kMaxMemoryBytes).code(), absl::StatusCode::kResourceExhausted);
}

TEST(Workspace, ATextBuilderStopsBeforeItOutgrowsTheMemory) {
  Workspace workspace;
  TextBuilder builder(workspace);
  const std::string part(kMaxTextBytes / 2, 'x');
  ASSERT_TRUE(builder.Append(part, true).ok());
  EXPECT_TRUE(workspace.CheckRoom(kMaxMemoryBytes - 2 * part.size()).ok());
  EXPECT_FALSE(workspace.CheckRoom(kMaxMemoryBytes - part.size() + 1).ok());
  ASSERT_TRUE(builder.Append(part, true).ok());
  EXPECT_EQ(builder.Append("x", true).message(), "more than 16 MiB of text");
}

TEST(Workspace, WhatABuilderHeldIsFreeWhenItIsGone) {
  Workspace workspace;
  {
    ListBuilder list(workspace);
    ASSERT_TRUE(list.AddAll(std::vector<Value>(1000)).ok());
    TextBuilder text(workspace);
    ASSERT_TRUE(text.Append("text", true).ok());
    EXPECT_FALSE(workspace.CheckRoom(kMaxMemoryBytes - 1000 * sizeof(Value)).ok());
  }
  EXPECT_TRUE(workspace.CheckRoom(kMaxMemoryBytes).ok());
}

TEST(Workspace, AListStopsBeforeItOutgrowsTheMemory) {
  Workspace workspace;
  ListBuilder list(workspace);
  const std::vector<Value> part(kMaxMemoryBytes / sizeof(Value) / 4);
  ASSERT_TRUE(list.AddAll(part).ok());
  ASSERT_TRUE(list.AddAll(part).ok());
  EXPECT_EQ(list.AddAll(part).message(), "more than 64 MiB of memory");  // to grow takes both
}

TEST(Workspace, StepsEndWithTheCpuTimeOfTheThread) {
  Workspace workspace;
  timespec begin;
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  do {
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  } while (absl::DurationFromTimespec(now) - absl::DurationFromTimespec(begin) <= kMaxCpuTime);
  absl::Status status;
  for (int step = 0; status.ok() && step < 10000; ++step) status = workspace.Step();
  EXPECT_EQ(status, absl::ResourceExhaustedError("more than 150ms of CPU time"));
}

TEST(Workspace, StepsEndSoonOnceItIsCancelled) {
  std::atomic<bool> cancelled = false;
  Workspace workspace(&cancelled);
  ASSERT_TRUE(workspace.Step().ok());
  cancelled = true;
  absl::Status status;
  for (int step = 0; status.ok() && step < 10000; ++step) status = workspace.Step();
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
}

TEST(Workspace, NestsContainersToTheLimitAndNoDeeper) {
  Workspace workspace;
  Value nested = *workspace.NewList({});
  for (int depth = 2; depth <= kMaxContainerDepth; ++depth) {
    const auto outer = depth % 2 == 0 ? workspace.NewList({nested})
                                      : workspace.NewDict({{Value{int64_t{1}}, nested}});
    ASSERT_TRUE(outer.ok()) << depth;
    nested = *outer;
  }
  EXPECT_EQ(workspace.NewList({nested}).status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_EQ(workspace.NewDict({{Value{int64_t{1}}, nested}}).status().code(),
            absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace baton::jinja
