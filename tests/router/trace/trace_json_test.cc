#include "router/trace/trace_json.h"

#include <gtest/gtest.h>

#include <string>

namespace baton {
namespace {

using Json = nlohmann::json;

// A request that took 5 us, with an attempt whose prefill has a chunk.
RequestTrace SmallTrace() {
  RequestTrace trace{.context = {.trace_id = std::string(32, 'a'),
                                 .span_id = std::string(16, 'b'),
                                 .parent_id = std::string(16, 'c'),
                                 .state = "vendor=1",
                                 .sampled = true}};
  const int64_t begin = 1'700'000'000'000'001'500;
  trace.spans = {
      {.name = "chat m",
       .begin_ns = begin,
       .end_ns = begin + 5000,
       .attributes = {{"text", std::string("\xff\"")},
                      {"count", int64_t{1} << 60},
                      {"share", 0.5},
                      {"yes", true},
                      {"list", std::vector<std::string>{"stop"}}}},
      {.name = "attempt", .parent = 0, .begin_ns = begin, .end_ns = begin + 4000, .error = "LOST"},
      {.name = "prefill.compute", .parent = 1, .begin_ns = begin + 1000, .end_ns = begin + 3000},
      {.name = "chunk", .parent = 2, .begin_ns = begin + 1000, .end_ns = begin + 3000}};
  return trace;
}

TEST(TraceJson, OtlpHasOneSpanAStageAndNumbersAsItsMappingWantsThem) {
  const OtlpResource resource{{{"service.name", std::string("baton-router")}}};
  const std::vector<RequestTrace> traces = {SmallTrace()};
  const Json body = Json::parse(OtlpBody(resource, traces));
  const Json& sent = body.at("resourceSpans").at(0);
  EXPECT_EQ(sent.at("resource").at("attributes").at(0),
            Json::parse(R"({"key": "service.name", "value": {"stringValue": "baton-router"}})"));
  const Json& spans = sent.at("scopeSpans").at(0).at("spans");
  ASSERT_EQ(spans.size(), 3u) << "a chunk is none";
  EXPECT_EQ(spans[0].at("traceId"), std::string(32, 'a'));
  EXPECT_EQ(spans[0].at("spanId"), std::string(16, 'b'));
  EXPECT_EQ(spans[0].at("parentSpanId"), std::string(16, 'c'));
  EXPECT_EQ(spans[0].at("traceState"), "vendor=1");
  EXPECT_EQ(spans[0].at("kind"), 2) << "a server's";
  EXPECT_EQ(spans[0].at("startTimeUnixNano"), "1700000000000001500");
  EXPECT_EQ(spans[1].at("parentSpanId"), std::string(16, 'b'));
  EXPECT_EQ(spans[1].at("status"), Json::parse(R"({"code": 2, "message": "LOST"})"));
  EXPECT_EQ(spans[2].at("parentSpanId"), spans[1].at("spanId"));
  EXPECT_NE(spans[2].at("spanId"), spans[1].at("spanId"));
  EXPECT_EQ(spans[0].at("attributes"), Json::parse(R"([
      {"key": "text", "value": {"stringValue": "\ufffd\""}},
      {"key": "count", "value": {"intValue": "1152921504606846976"}},
      {"key": "share", "value": {"doubleValue": 0.5}},
      {"key": "yes", "value": {"boolValue": true}},
      {"key": "list", "value": {"arrayValue": {"values": [{"stringValue": "stop"}]}}}])"));
}

TEST(TraceJson, EventsAreInMicrosecondsAndStayNested) {
  const std::vector<int> tracks = {4, 4, 4, 5};
  const auto events = ChromeEvents(SmallTrace(), 1, tracks);
  ASSERT_EQ(events.size(), 4u);
  EXPECT_EQ(events[0].at("ts"), 1'700'000'000'000'001);
  EXPECT_EQ(events[0].at("dur"), 5);
  EXPECT_EQ(events[0].at("ph"), "X");
  EXPECT_EQ(events[0].at("args").at("trace_id"), std::string(32, 'a'));
  EXPECT_EQ(events[1].at("args").at("error"), "LOST");
  EXPECT_EQ(events[3].at("tid"), 5);
  EXPECT_EQ(events[2].at("ts"), events[3].at("ts"));
  EXPECT_EQ(events[2].at("dur"), events[3].at("dur"));
}

}  // namespace
}  // namespace baton
