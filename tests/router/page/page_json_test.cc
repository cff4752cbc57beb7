#include "router/page/page_json.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <nlohmann/json.hpp>

namespace baton {
namespace {

using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

Json FleetOf(const FleetReport& fleet, const RouterReport& router = {},
             const std::vector<FleetEvent>& events = {}) {
  return Json::parse(FleetJson(1000.5, router, fleet, events));
}

TEST(PageJson, TellsOfTheRouterAndItsEvents) {
  const Json json = FleetOf({.rates = {.output_tokens = 7}},
                            {.name = "r",
                             .model = "m",
                             .draining = true,
                             .uptime = absl::Milliseconds(1500),
                             .refused = {{"QUEUE_FULL", 3}}},
                            {{.number = 1,
                              .at = 999,
                              .kind = FleetEvent::Kind::kWorkerUp,
                              .worker = "d",
                              .text = "It is up."}});
  EXPECT_EQ(json["now"], 1000.5);
  EXPECT_EQ(json["model"], "m");
  EXPECT_EQ(json["tokens_per_second"], 7);
  EXPECT_EQ(json["routers"][0]["state"], "draining");
  EXPECT_EQ(json["routers"][0]["uptime_s"], 1.5);
  EXPECT_EQ(json["routers"][0]["refused"].dump(), R"({"queue_full":3})");
  EXPECT_EQ(json["events"].dump(),
            R"([{"number":1,"at":999.0,"kind":"worker_up","worker":"d","text":"It is up."}])");
}

TEST(PageJson, OfAWorkerThatIsNotKnownNothingElseIsTold) {
  const WorkerReport unknown{.name = "d:1", .role = "decode", .address = "d:1", .state = "away"};
  FleetReport fleet{.workers = {unknown}};
  EXPECT_EQ(FleetOf(fleet)["workers"].dump(),
            R"([{"name":"d:1","role":"decode","address":"d:1","state":"away"}])");
  EXPECT_TRUE(Json::parse(KvJson(fleet))["workers"].empty());
  fleet.workers[0].known = true;
  fleet.workers[0].blocks = {.total = 6, .used = 3, .cached = 2, .free = 1};
  const Json blocks = Json::parse(R"({"total":6,"used":3,"cached":2,"free":1})");
  EXPECT_EQ(FleetOf(fleet)["workers"][0]["blocks"], blocks);
  EXPECT_EQ(Json::parse(KvJson(fleet))["workers"][0]["blocks"], blocks);
}

TEST(PageJson, ALinkOnWhichHandOffsFailNamesBothEndsAndTheReason) {
  EXPECT_FALSE(FleetOf({}).contains("links"));
  const FleetReport fleet{.links = {{.prefill = "p",
                                     .decode = "d",
                                     .prefill_address = "10.0.0.1:1",
                                     .decode_address = "10.0.0.2:2",
                                     .reason = "unreachable",
                                     .problem = "refused",
                                     .failures = 3,
                                     .since_last = absl::Seconds(2)}}};
  EXPECT_EQ(FleetOf(fleet)["links"].dump(),
            R"([{"prefill_worker":"p","decode_worker":"d","prefill_address":"10.0.0.1:1",)"
            R"("decode_address":"10.0.0.2:2","reason":"unreachable","problem":"refused",)"
            R"("failures":3,"since_last_ms":2000.0}])");
}

TEST(PageJson, AWorkersTokensAreThoseOfItsRole) {
  WorkerReport worker{.role = "prefill", .known = true};
  worker.rates = {.output_tokens = 1, .prompt_tokens = 2, .exposed_transfer = absl::Seconds(1)};
  const Json prefill = FleetOf({.workers = {worker}})["workers"][0];
  EXPECT_EQ(prefill["tokens_per_second"], 2);
  EXPECT_EQ(prefill["exposed_transfer_ms"], 1000);
  worker.role = "decode";
  const Json decode = FleetOf({.workers = {worker}})["workers"][0];
  EXPECT_EQ(decode["tokens_per_second"], 1);
  EXPECT_FALSE(decode.contains("exposed_transfer_ms"));
}

TEST(PageJson, AdviceThatIsNotKnownIsAbsent) {
  FleetReport fleet;
  fleet.advice.prefill.ready = 2;
  EXPECT_EQ(FleetOf(fleet)["advice"]["prefill"].dump(), R"({"ready":2})");
  fleet.advice.prefill.needed = 0;
  fleet.advice.colocated = {.workers = 3, .prompt_share = 0.25};
  EXPECT_EQ(FleetOf(fleet)["advice"]["prefill"]["needed"], 0);
  EXPECT_EQ(FleetOf(fleet)["advice"]["colocated"]["workers"], 3);
}

TEST(PageJson, TheHistoryHasAListForEachQuantityInUnixSeconds) {
  const absl::Time steady_now = absl::UnixEpoch() + absl::Seconds(70);
  const std::vector<FleetPoint> points = {
      {.at = steady_now - absl::Seconds(7.5),
       .rates = {.output_tokens = 1.0 / 3, .prompt_tokens = 2, .hand_offs = 3, .hand_off_bytes = 4},
       .running = 5,
       .waiting = 6},
      {.at = steady_now - absl::Seconds(2.5), .first_token = absl::Microseconds(1500)}};
  EXPECT_EQ(HistoryJson(1000.5, steady_now, points),
            R"({"now":1000.5,"interval_s":5.0,"length_s":900.0,"at":[993.0,998.0],)"
            R"("tokens_per_second":[0.333,0.0],"prompt_tokens_per_second":[2.0,0.0],)"
            R"("handoffs_per_second":[3.0,0.0],"handoff_bytes_per_second":[4.0,0.0],)"
            R"("running":[5,0],"waiting":[6,0],"ttft_ms":[null,1.5]})");
  EXPECT_EQ(Json::parse(HistoryJson(1, steady_now, {}))["at"].dump(), "[]");
}

TEST(PageJson, ARequestHasATotalOnceItHasEnded) {
  RequestRecord record{.id = "a", .stage = RequestStage::kDecode};
  record.stage_since = absl::Milliseconds(30);
  record.age = absl::Milliseconds(100);
  const auto summary = [&] { return Json::parse(RequestsJson({record}))["requests"][0]; };
  EXPECT_EQ(summary()["stage_ms"], 70);
  EXPECT_FALSE(summary().contains("total_ms"));
  record.stage = RequestStage::kDone;
  EXPECT_EQ(summary()["total_ms"], 100);
  EXPECT_FALSE(summary().contains("stage_ms"));
  EXPECT_FALSE(summary().contains("cached_tokens"));
}

TEST(PageJson, ARequestsTryThatRunsEndsNow) {
  RequestRecord record{.id = "a\xff", .stage = RequestStage::kDecode};
  record.age = absl::Milliseconds(100);
  record.tries.push_back({.number = 1, .begun = absl::Milliseconds(5)});
  EXPECT_THAT(RequestJson(record), HasSubstr("\"id\":\"a\uFFFD\"")) << "a client's id is any bytes";
  const auto whole = [&] { return Json::parse(RequestJson(record)); };
  EXPECT_EQ(whole()["tries"][0]["end_ms"], 100);
  EXPECT_FALSE(whole().contains("transfer"));
  record.tries[0].ended = absl::Milliseconds(60);
  record.timings.set_kv_transfer_messages(2);
  EXPECT_EQ(whole()["tries"][0]["end_ms"], 60);
  EXPECT_EQ(whole()["transfer"]["messages"], 2);
}

TEST(PageJson, PagesOfPrefixesAreNamedInHexadecimal) {
  FleetReport fleet;
  fleet.prefixes = {{.page = 255, .depth_tokens = 16, .workers = {"p"}},
                    {.page = ~uint64_t{0}, .parent = 255, .depth_tokens = 32}};
  const Json prefixes = Json::parse(KvJson(fleet))["prefixes"];
  EXPECT_EQ(prefixes[0]["page"], "00000000000000ff");
  EXPECT_FALSE(prefixes[0].contains("parent"));
  EXPECT_EQ(prefixes[0]["tokens"], 16);
  EXPECT_EQ(prefixes[1]["page"], "ffffffffffffffff");
  EXPECT_EQ(prefixes[1]["parent"], prefixes[0]["page"]);
}

}  // namespace
}  // namespace baton
