#include "router/trace/lay_trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/rpc/duration.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

absl::Duration Ms(int64_t ms) { return absl::Milliseconds(ms); }

constexpr int64_t kReceivedS = 1000;
constexpr int64_t kNsPerMs = 1'000'000;

// A request that waits 4 ms for workers and 6 for blocks, and is computed and handed off in 20 ms:
// two chunks, one message that begins with the second. It is decoded in 30 ms.
TryRecord HandedOff() {
  TryRecord attempt{.number = 1,
                    .queued = Ms(4),
                    .prefill_worker = "p1",
                    .decode_worker = "d1",
                    .accepted = Ms(10),
                    .started = Ms(12),
                    .first_token = Ms(33),
                    .committed = Ms(40),
                    .ended = Ms(75),
                    .chunks = {{.tokens = 0, .at = Ms(12)}}};
  internal::v1::PrefillFinished& told = attempt.prefill.emplace();
  *told.mutable_queue() = DurationToProto(Ms(2));
  *told.mutable_compute() = DurationToProto(Ms(20));
  *told.mutable_transfer() = DurationToProto(Ms(15));
  *told.mutable_exposed_transfer() = DurationToProto(Ms(7));
  told.set_messages(1);
  told.set_bytes_sent(4096);
  for (const int end : {1, 2}) {
    internal::v1::ChunkSpan& chunk = *told.add_chunks();
    chunk.set_end_us(static_cast<uint32_t>(end * 10'000));
    chunk.set_end_token(static_cast<uint32_t>(end * 16));
  }
  internal::v1::TransferSpan& sent = *told.add_transfers();
  sent.set_end_us(15'000);
  sent.set_bytes(4096);
  attempt.decode = DecodeAccount{};
  attempt.decode->queue = Ms(1);
  attempt.decode->decode = Ms(30);
  return attempt;
}

RequestRecord Record(std::vector<TryRecord> tries) {
  RequestRecord record{.id = "mine",
                       .received = kReceivedS,
                       .stage = RequestStage::kDone,
                       .age = Ms(75),
                       .prompt_tokens = 32,
                       .output_tokens = 5,
                       .finish = "stop",
                       .tries = std::move(tries)};
  *record.timings.mutable_total() = DurationToProto(Ms(75));
  *record.timings.mutable_time_to_first_token() = DurationToProto(Ms(34));
  return record;
}

TracedRequest Request() { return {.model = "m", .chat = true, .max_tokens = 64}; }

const TraceSpan& Find(const RequestTrace& trace, const std::string& name) {
  for (const TraceSpan& span : trace.spans) {
    if (span.name == name) return span;
  }
  ADD_FAILURE() << "no " << name;
  return trace.spans.front();
}

// Milliseconds since the request was received.
std::pair<int64_t, int64_t> Extent(const TraceSpan& span) {
  const int64_t received = kReceivedS * 1000 * kNsPerMs;
  return {(span.begin_ns - received) / kNsPerMs, (span.end_ns - received) / kNsPerMs};
}

template <typename T>
T Attribute(const TraceSpan& span, const std::string& name) {
  for (const auto& [key, value] : span.attributes) {
    if (key == name) return std::get<T>(value);
  }
  ADD_FAILURE() << "no " << name;
  return {};
}

void ExpectNested(const RequestTrace& trace) {
  for (size_t i = 1; i < trace.spans.size(); ++i) {
    const TraceSpan& span = trace.spans[i];
    ASSERT_GE(span.parent, 0);
    ASSERT_LT(span.parent, static_cast<int>(i)) << "parents come first";
    const TraceSpan& parent = trace.spans[static_cast<size_t>(span.parent)];
    EXPECT_LE(parent.begin_ns, span.begin_ns) << span.name;
    EXPECT_LE(span.begin_ns, span.end_ns) << span.name;
    EXPECT_LE(span.end_ns, parent.end_ns) << span.name;
  }
}

TEST(LayTrace, AStageIsAsLongAsItsWorkerSaysAndWaitsStandBetweenThem) {
  const RequestTrace trace = LayTrace(Record({HandedOff()}), Request());
  ExpectNested(trace);
  std::vector<std::string> names;
  for (const TraceSpan& span : trace.spans) names.push_back(span.name);
  EXPECT_THAT(names, ElementsAre("chat m", "attempt", "queue", "placement", "prefill.queue",
                                 "prefill.compute", "chunk 1 of 2", "chunk 2 of 2", "kv.transfer",
                                 "message", "decode.queue", "decode"));
  using P = std::pair<int64_t, int64_t>;
  EXPECT_EQ(Extent(trace.spans[0]), (P{0, 75}));
  EXPECT_EQ(Extent(Find(trace, "queue")), (P{0, 4}));
  EXPECT_EQ(Extent(Find(trace, "placement")), (P{4, 10}));
  EXPECT_EQ(Extent(Find(trace, "prefill.queue")), (P{10, 12}));
  EXPECT_EQ(Extent(Find(trace, "prefill.compute")), (P{12, 32}));
  EXPECT_EQ(Extent(Find(trace, "kv.transfer")), (P{24, 39}));
  EXPECT_EQ(Extent(Find(trace, "decode.queue")), (P{40, 41}));
  EXPECT_EQ(Extent(Find(trace, "decode")), (P{41, 71}));
  EXPECT_EQ(Attribute<std::string>(Find(trace, "decode"), "baton.worker"), "d1");
  EXPECT_EQ(Attribute<int64_t>(Find(trace, "message"), "bytes"), 4096);
}

TEST(LayTrace, TheRequestHasTheFieldsNames) {
  const RequestTrace trace = LayTrace(Record({HandedOff()}), Request());
  const TraceSpan& request = trace.spans.front();
  EXPECT_EQ(Attribute<std::string>(request, "gen_ai.operation.name"), "chat");
  EXPECT_EQ(Attribute<std::string>(request, "gen_ai.request.model"), "m");
  EXPECT_EQ(Attribute<int64_t>(request, "gen_ai.request.max_tokens"), 64);
  EXPECT_EQ(Attribute<int64_t>(request, "gen_ai.usage.input_tokens"), 32);
  EXPECT_EQ(Attribute<int64_t>(request, "gen_ai.usage.output_tokens"), 5);
  EXPECT_EQ(Attribute<std::string>(request, "gen_ai.response.id"), "mine");
  EXPECT_EQ(Attribute<double>(request, "gen_ai.response.time_to_first_chunk"), 0.034);
  EXPECT_EQ(Attribute<double>(request, "gen_ai.latency.e2e"), 0.075);
}

TEST(LayTrace, WhatLiesOutsideOfItsAttemptIsCut) {
  TryRecord attempt = HandedOff();
  attempt.decode->decode = absl::Seconds(2);  // longer than the request
  const RequestTrace trace = LayTrace(Record({attempt}), Request());
  ExpectNested(trace);
  EXPECT_EQ(Extent(Find(trace, "decode")).second, 75);
}

TEST(LayTrace, EachAttemptSaysWhyItBroke) {
  TryRecord broken{.number = 1, .queued = Ms(4), .prefill_worker = "p1", .decode_worker = "d1"};
  broken.accepted = Ms(10);
  broken.ended = Ms(20);
  broken.failure = "UNAVAILABLE KV_TRANSFER_FAILED in stage transfer";
  TryRecord second = HandedOff();
  second.number = 2;
  second.begun = Ms(20);
  const RequestTrace trace = LayTrace(Record({broken, second}), Request());
  ExpectNested(trace);
  EXPECT_EQ(Find(trace, "attempt").error, broken.failure);
  EXPECT_EQ(Attribute<int64_t>(trace.spans.front(), "baton.attempts"), 2);
  EXPECT_EQ(trace.spans.front().error, "");
}

TEST(LayTrace, ARequestThatFailedHasItsCodeAsTypeOfError) {
  RequestRecord record = Record({});
  record.stage = RequestStage::kFailed;
  record.finish = "";
  record.error = "UNAVAILABLE NO_READY_WORKER in stage queue";
  const RequestTrace trace = LayTrace(record, Request());
  EXPECT_EQ(trace.spans.size(), 1u);
  EXPECT_EQ(trace.spans.front().error, record.error);
  EXPECT_EQ(Attribute<std::string>(trace.spans.front(), "error.type"), "UNAVAILABLE");
}

}  // namespace
}  // namespace baton
