#include "router/page/request_history.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

#include "common/rpc/duration.h"
#include "router/page/waterfall.h"
#include "tests/router/request/machine_harness.h"

namespace baton {
namespace {

using internal::v1::DecodeResponse;
using internal::v1::PrefillResponse;
using Lane = WaterfallSpan::Lane;

absl::Duration Ms(int64_t ms) { return absl::Milliseconds(ms); }

// A request whose workers are played by hand, and its record.
class RecordedHarness {
 public:
  explicit RecordedHarness(uint32_t max_tokens)
      : harness(MachineHarness::Spec(max_tokens)),
        record(harness.machine.spec(), 1000.0, events, fleet) {}

  void At(int64_t ms) { harness.now = absl::UnixEpoch() + Ms(ms); }
  void Feed(const RequestEvent& event) {
    harness.Feed(event);
    record.Handled(harness.machine, event, harness.now);
  }
  void Choose(bool prefill, bool decode) {
    const uint32_t attempt = harness.machine.attempt();
    record.Chosen(attempt, prefill ? absl::StrCat("p", attempt) : "",
                  decode ? absl::StrCat("d", attempt) : "", harness.machine, harness.now);
    WorkersChosen chosen = MachineHarness::Chosen(prefill, decode);
    chosen.attempt = attempt;
    Feed(chosen);
  }
  DecodeResponse& Decode() { return decode_.emplace(); }
  PrefillResponse& Prefill() { return prefill_.emplace(); }
  // Feeds what was made by the last of the two.
  void Send() {
    const uint32_t attempt = harness.machine.attempt();
    if (decode_.has_value()) Feed(DecodeMessage{attempt, *std::exchange(decode_, std::nullopt)});
    if (prefill_.has_value()) {
      Feed(PrefillMessage{attempt, *std::exchange(prefill_, std::nullopt)});
    }
  }
  void Accepts() {
    Decode().mutable_accepted();
    Send();
  }
  void Starts(uint32_t cached) {
    Prefill().mutable_started()->set_cached_tokens(cached);
    Send();
  }
  void Commits() {
    Decode().mutable_committed()->set_exact(true);
    Send();
  }
  void Tokens(const std::vector<internal::v1::OutputToken>& tokens) {
    DecodeResponse& message = Decode();
    for (const auto& token : tokens) *message.mutable_tokens()->add_tokens() = token;
    Send();
  }
  void DecodeFinishes(absl::Duration queue, absl::Duration decode) {
    internal::v1::DecodeFinished& finished = *Decode().mutable_finished();
    *finished.mutable_queue() = DurationToProto(queue);
    *finished.mutable_decode() = DurationToProto(decode);
    Send();
  }
  RequestRecord Read() const { return record.Read(harness.now, /*whole=*/true); }

  EventLog events;
  FleetHistory fleet;
  MachineHarness harness;
  RecordedRequest record;

 private:
  std::optional<DecodeResponse> decode_;
  std::optional<PrefillResponse> prefill_;
};

// From the beginning of a lane's first span to the end of its last.
absl::Duration Extent(const RequestRecord& record, Lane lane) {
  absl::Duration first = absl::InfiniteDuration(), last = -absl::InfiniteDuration();
  for (const WaterfallSpan& span : LayWaterfall(record)) {
    if (span.lane != lane) continue;
    first = std::min(first, span.start);
    last = std::max(last, span.end);
  }
  return last - first;
}

// One that is handed off: 10 ms of queue, 20 of prefill in two chunks, 15 of transfer, 7 of them
// exposed.
void HandOff(RecordedHarness& request) {
  request.At(4);
  request.Choose(true, true);
  request.At(10);
  request.Accepts();
  request.At(12);
  request.Starts(0);
  EXPECT_EQ(request.Read().stage, RequestStage::kPrefill);
  request.At(34);
  *request.Prefill().mutable_first_token() = Token(0, 0);
  request.Send();
  EXPECT_EQ(request.Read().stage, RequestStage::kTransfer);
  internal::v1::PrefillFinished& finished = *request.Prefill().mutable_finished();
  *finished.mutable_queue() = DurationToProto(Ms(1));
  *finished.mutable_compute() = DurationToProto(Ms(20));
  *finished.mutable_transfer() = DurationToProto(Ms(15));
  *finished.mutable_exposed_transfer() = DurationToProto(Ms(7));
  finished.set_messages(2);
  for (const auto& [token, us] : {std::pair{2u, 12000u}, {3u, 19500u}}) {
    finished.add_chunks()->set_end_token(token);
    finished.mutable_chunks()->rbegin()->set_end_us(us);
  }
  for (const auto& [begin, end] : {std::pair{0u, 4000u}, {5000u, 12000u}}) {
    internal::v1::TransferSpan& sent = *finished.add_transfers();
    sent.set_first_layer(begin / 1000);
    sent.set_layer_count(5);
    sent.set_bytes(100);
    sent.set_begin_us(begin);
    sent.set_end_us(end);
  }
  request.At(40);
  request.Send();
  request.Commits();
}

TEST(RequestHistory, EachLaneOfARequestIsAsLongAsItsTimingsSay) {
  RecordedHarness request(3);
  HandOff(request);
  EXPECT_EQ(request.Read().stage, RequestStage::kDecode);
  request.At(60);
  request.Tokens(Abc());
  request.DecodeFinishes(Ms(3), Ms(11));
  request.record.Ended(request.harness.machine, absl::OkStatus(), "length", request.harness.now);
  const RequestRecord record = request.Read();
  EXPECT_EQ(record.stage, RequestStage::kDone);
  EXPECT_EQ(record.output_tokens, 3u);
  const v1::RequestTimings& timings = request.harness.complete().timings();
  EXPECT_EQ(Extent(record, Lane::kQueue), DurationFromProto(timings.queue()));
  EXPECT_EQ(Extent(record, Lane::kPrefillQueue), DurationFromProto(timings.prefill_queue()));
  EXPECT_EQ(DurationFromProto(timings.prefill_queue()), Ms(1));
  EXPECT_EQ(Extent(record, Lane::kPrefill), DurationFromProto(timings.prefill()));
  EXPECT_EQ(Extent(record, Lane::kTransfer), DurationFromProto(timings.kv_transfer()));
  EXPECT_EQ(Extent(record, Lane::kDecodeQueue), DurationFromProto(timings.decode_queue()));
  EXPECT_EQ(Extent(record, Lane::kDecode), DurationFromProto(timings.decode()));
  EXPECT_EQ(DurationFromProto(timings.queue()), Ms(10));
  EXPECT_EQ(record.timings.SerializeAsString(), timings.SerializeAsString());
}

TEST(RequestHistory, ChunksFollowEachOtherAndTransfersLieWhereTheyWereExposed) {
  RecordedHarness request(3);
  HandOff(request);
  std::vector<WaterfallSpan> prefill, transfer;
  for (const WaterfallSpan& span : LayWaterfall(request.Read())) {
    if (span.lane == Lane::kPrefill) prefill.push_back(span);
    if (span.lane == Lane::kTransfer) transfer.push_back(span);
  }
  ASSERT_EQ(prefill.size(), 2u);
  EXPECT_EQ(prefill[0].start, Ms(11)) << "accepted at 10, 1 of queue";
  EXPECT_EQ(prefill[0].end, Ms(23));
  EXPECT_EQ(prefill[0].tokens, 2u);
  EXPECT_EQ(prefill[0].label, "chunk 1 of 2");
  EXPECT_EQ(prefill[1].start, prefill[0].end);
  EXPECT_EQ(prefill[1].end, Ms(31));
  EXPECT_EQ(prefill[1].tokens, 1u);
  ASSERT_EQ(transfer.size(), 3u);
  EXPECT_EQ(transfer[0].start, Ms(31 + 7 - 15));
  EXPECT_EQ(transfer[0].layers, std::pair(0u, 4u));
  EXPECT_EQ(transfer[1].layers, std::pair(5u, 9u));
  EXPECT_EQ(transfer[2].label, "commit");
  EXPECT_EQ(transfer[2].end, Ms(31 + 7));
}

TEST(RequestHistory, AQueueOfTheOneThatPrefillsIsSeenBeforeItIsTold) {
  RecordedHarness request(3);
  request.At(5);
  request.Choose(true, true);
  request.Accepts();
  request.At(9);
  EXPECT_EQ(Extent(request.Read(), Lane::kPrefillQueue), Ms(4)) << "the prompt still waits";
  request.At(12);
  request.Starts(0);
  request.At(20);
  EXPECT_EQ(Extent(request.Read(), Lane::kPrefillQueue), Ms(7));
  EXPECT_EQ(Extent(request.Read(), Lane::kPrefill), Ms(8));
}

TEST(RequestHistory, ATryThatBrokeStaysWithWhatIsKnownOfIt) {
  RecordedHarness request(3);
  request.At(5);
  request.Choose(true, true);
  request.Accepts();
  request.At(8);
  request.Starts(0);
  request.At(20);
  request.Feed(PrefillEnded{request.harness.machine.attempt(), kKilled});
  request.At(25);
  request.Choose(true, true);
  request.At(27);
  request.Accepts();
  const RequestRecord record = request.Read();
  ASSERT_EQ(record.tries.size(), 2u);
  EXPECT_EQ(record.tries[0].prefill_worker, "p1");
  EXPECT_EQ(record.tries[0].ended, Ms(20));
  EXPECT_NE(record.tries[0].failure.find("UNAVAILABLE"), std::string::npos)
      << record.tries[0].failure;
  EXPECT_EQ(record.tries[0].failure.find("killed"), std::string::npos) << "no message";
  EXPECT_EQ(record.tries[1].begun, Ms(20));
  EXPECT_EQ(record.tries[1].queued, Ms(7));
  EXPECT_EQ(record.stage, RequestStage::kPrefill);
  EXPECT_EQ(record.stage_since, Ms(27));
  bool broken_prefill = false;
  for (const WaterfallSpan& span : LayWaterfall(record)) {
    if (span.lane != Lane::kPrefill || span.attempt != 1) continue;
    EXPECT_EQ(span.start, Ms(8));
    EXPECT_EQ(span.end, Ms(20));
    broken_prefill = true;
  }
  EXPECT_TRUE(broken_prefill);
  ASSERT_EQ(request.events.Get().size(), 1u);
  EXPECT_EQ(request.events.Get()[0].kind, FleetEvent::Kind::kRetried);
  EXPECT_EQ(request.events.Get()[0].worker, "p1");
}

TEST(RequestHistory, ALocalPrefillIsAsLongAsTheDecodeWorkerSays) {
  RecordedHarness request(3);
  request.At(2);
  request.Choose(false, true);
  request.At(5);
  request.Accepts();
  for (const auto& [ms, tokens] : {std::pair{6, 0u}, {9, 2u}, {14, 3u}}) {
    request.At(ms);
    request.Decode().mutable_prefill_progress()->set_computed_tokens(tokens);
    request.Send();
  }
  request.Tokens({Token(0, 0)});
  EXPECT_EQ(request.Read().stage, RequestStage::kDecode);
  request.At(20);
  request.Tokens({Token(1, 1), LastToken(2, 2, v1::FINISH_REASON_LENGTH)});
  internal::v1::DecodeFinished& finished = *request.Decode().mutable_finished();
  *finished.mutable_prefill_queue() = DurationToProto(Ms(1));
  *finished.mutable_prefill() = DurationToProto(Ms(8));
  *finished.mutable_decode() = DurationToProto(Ms(6));
  request.Send();
  request.record.Ended(request.harness.machine, absl::OkStatus(), "length", request.harness.now);
  const RequestRecord record = request.Read();
  EXPECT_EQ(Extent(record, Lane::kQueue), Ms(2));
  EXPECT_EQ(Extent(record, Lane::kPrefillQueue), Ms(1));
  EXPECT_EQ(Extent(record, Lane::kPrefill), Ms(8));
  EXPECT_EQ(Extent(record, Lane::kDecode), Ms(6));
}

TEST(RequestHistory, AClientThatLeavesIsAnEvent) {
  RecordedHarness request(3);
  request.Feed(ClientCancelled{});
  request.record.Ended(request.harness.machine, absl::CancelledError("text of a client"), "",
                       request.harness.now);
  EXPECT_EQ(request.Read().stage, RequestStage::kCancelled);
  EXPECT_EQ(request.Read().error, "CANCELLED");
  EXPECT_EQ(request.events.Get().back().kind, FleetEvent::Kind::kCancelled);
}

TEST(RequestHistory, TheFirstTokenOfARequestCountsOnceInTheFleetsHistory) {
  RecordedHarness request(3);
  const absl::Time began = request.harness.now;
  request.fleet.Tick({.at = began});
  HandOff(request);  // the prefill worker's first token comes after 34 ms
  request.At(60);
  request.Tokens({Abc()[0], Abc()[1]});
  request.At(90);
  request.Tokens({Abc()[2]});
  for (int i = 1; i <= 2; ++i) request.fleet.Tick({.at = began + i * FleetHistory::kInterval});
  const std::vector<FleetPoint> points = request.fleet.Get(began + 2 * FleetHistory::kInterval);
  ASSERT_EQ(points.size(), 3u);
  EXPECT_EQ(points[0].first_token, std::nullopt);
  EXPECT_EQ(points[1].first_token, Ms(34));
  EXPECT_EQ(points[2].first_token, std::nullopt);
}

TEST(RequestHistory, TheOldestRequestsAreForgotten) {
  EventLog events;
  FleetHistory fleet;
  RequestHistory history(events, fleet);
  const absl::Time now = absl::UnixEpoch();
  for (size_t i = 0; i <= RequestHistory::kBound; ++i) {
    RequestSpec spec = MachineHarness::Spec(1);
    spec.client_request_id = absl::StrCat("r", i);
    history.Begin(spec, now);
  }
  const std::vector<RequestRecord> newest = history.Newest(now);
  ASSERT_EQ(newest.size(), RequestHistory::kBound);
  EXPECT_EQ(newest.front().id, absl::StrCat("r", RequestHistory::kBound));
  EXPECT_EQ(newest.back().id, "r1");
  EXPECT_FALSE(history.Find("r0", now).has_value());
  EXPECT_TRUE(history.Find("r1", now).has_value());
}

}  // namespace
}  // namespace baton
