#include "common/rpc/trace_context.h"

#include <gtest/gtest.h>

#include <string>

namespace baton {
namespace {

constexpr char kTrace[] = "0af7651916cd43dd8448eb211c80319c";
constexpr char kTraceParent[] = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

// The trace of a traceparent; empty if it is not valid.
std::string TraceIn(const std::string& text) {
  const auto parent = ParseTraceParent(text);
  return parent.has_value() ? std::string(parent->trace_id) : "";
}

TEST(TraceParent, ALaterVersionIsReadAsFarAsItIsKnown) {
  const std::string rest = std::string(kTraceParent).substr(2);
  EXPECT_EQ(TraceIn("01" + rest), kTrace);
  EXPECT_EQ(TraceIn("01" + rest + "-more"), kTrace);
  EXPECT_EQ(TraceIn("01" + rest + "more"), "");
  EXPECT_EQ(TraceIn("ff" + rest), "");
  EXPECT_EQ(TraceIn("00" + rest + "-more"), "");
}

TEST(TraceParent, WhatTheStandardForbidsIsNoTrace) {
  EXPECT_EQ(TraceIn(kTraceParent), kTrace);
  for (size_t i = 0; i < sizeof(kTraceParent) - 1; ++i) {
    std::string wrong = kTraceParent;
    wrong[i] = 'G';
    EXPECT_EQ(TraceIn(wrong), "") << wrong;
    EXPECT_EQ(TraceIn(std::string(kTraceParent).substr(0, i)), "");
  }
  EXPECT_EQ(TraceIn("00-0AF7651916CD43DD8448EB211C80319C-b7ad6b7169203331-01"), "");
  EXPECT_EQ(TraceIn("00-00000000000000000000000000000000-b7ad6b7169203331-01"), "");
  EXPECT_EQ(TraceIn("00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01"), "");
}

TEST(TraceParent, OnlyTheLowestFlagSaysThatTheCallerRecords) {
  const std::string before = std::string(kTraceParent).substr(0, 53);
  for (const char* flags : {"01", "03", "0b", "ff"}) {
    EXPECT_TRUE(ParseTraceParent(before + flags)->sampled) << flags;
  }
  for (const char* flags : {"00", "02", "0a", "fe"}) {
    EXPECT_FALSE(ParseTraceParent(before + flags)->sampled) << flags;
  }
}

TEST(TraceParent, CallsForARequestAreChildrenOfItsSpan) {
  TraceContext context;
  context.trace_id = kTrace;
  context.span_id = "00f067aa0ba902b7";
  context.parent_id = "b7ad6b7169203331";
  const std::string text = TraceParentOf(context);
  const auto parent = ParseTraceParent(text);
  ASSERT_TRUE(parent.has_value()) << text;
  EXPECT_EQ(parent->trace_id, kTrace);
  EXPECT_EQ(parent->span_id, "00f067aa0ba902b7");
  EXPECT_FALSE(parent->sampled);
}

}  // namespace
}  // namespace baton
