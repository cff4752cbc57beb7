#include "client/status/fleet_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace baton {
namespace {

using Json = nlohmann::ordered_json;
using testing::HasSubstr;
using testing::Not;

Json Fleet(const std::string& router, double at) {
  return {{"model", "SmolLM2"},
          {"version", "0.1.0"},
          {"tokens_per_second", 10.5},
          {"routers",
           {{{"name", router},
             {"state", "serving"},
             {"uptime_s", 3725},
             {"running", 1},
             {"waiting", 2},
             {"streams_behind", 0},
             {"refused", {{"queue_full", 3}, {"draining", 1}}}}}},
          {"workers",
           {{{"name", "decode-0"},
             {"role", "decode"},
             {"address", "10.0.0.1:50061"},
             {"state", "ready"},
             {"in_flight", 2},
             {"running", 4},
             {"silent_ms", at},
             {"tokens_per_second", 10.5},
             {"blocks", {{"total", 100}, {"used", 52}, {"cached", 20}, {"free", 28}}}}}},
          {"events", {{{"at", at}, {"kind", "worker_up"}, {"text", "It is ready."}}}}};
}

TEST(FleetStatus, OneFleetIsATableOfRoutersWorkersAndEvents) {
  const std::string table = FleetTable(Fleet("r0", 100), 8);
  EXPECT_THAT(table, HasSubstr("SmolLM2, Baton 0.1.0: 10.5 tokens/s"));
  EXPECT_THAT(table, testing::ContainsRegex("r0 +serving +1h02m +1 +2 +0 +4\n"));
  EXPECT_THAT(table, testing::ContainsRegex("decode-0 +decode +ready +4 +- +.#####\\+\\+\\.\\.\\.. "
                                            "52 % +10.5"));
  EXPECT_THAT(table, HasSubstr("00:01:40Z  worker_up  It is ready.\n")) << "in UTC, as the log";
  EXPECT_THAT(FleetTable(Fleet("r0", 100), 0), Not(HasSubstr("It is ready")));
}

TEST(FleetStatus, LinksOnWhichHandOffsFailHaveARowEach) {
  Json fleet = Fleet("r0", 100);
  EXPECT_THAT(FleetTable(fleet, 8), Not(HasSubstr("FAILING LINK")));
  Json link = {{"prefill_worker", "prefill-0"},
               {"decode_worker", "decode-0"},
               {"decode_address", "10.0.0.1:50061"},
               {"failures", 3},
               {"reason", "unreachable"},
               {"problem", "connection refused"}};
  fleet["links"] = Json::array({link});
  EXPECT_THAT(FleetTable(fleet, 8),
              testing::ContainsRegex(
                  "prefill-0 +decode-0 +10.0.0.1:50061 +3 +unreachable +connection refused\n"));
  Json other = Fleet("r1", 100);
  link["prefill_worker"] = "prefill-1";
  other["links"] = Json::array({link});
  EXPECT_EQ(JoinFleets({fleet, other})["links"].size(), 2u);
  EXPECT_EQ(JoinFleets({Fleet("r0", 100), other})["links"].size(), 1u);
  fleet["links"] = "none";
  EXPECT_EQ(JoinFleets({fleet, other})["links"].size(), 1u);
}

TEST(FleetStatus, SeveralRoutersAreOneFleetWithEachWorkerOnce) {
  const Json joined = JoinFleets({Fleet("r0", 200), Fleet("r1", 100)});
  ASSERT_EQ(joined["routers"].size(), 2u);
  ASSERT_EQ(joined["workers"].size(), 1u);
  EXPECT_EQ(joined["workers"][0]["in_flight"], 4) << "each router counts what it has given";
  EXPECT_EQ(joined["workers"][0]["running"], 4) << "the worker says it of itself";
  EXPECT_EQ(joined["workers"][0]["silent_ms"], 100) << "the newer word";
  EXPECT_EQ(joined["workers"][0]["tokens_per_second"], 21);
  EXPECT_EQ(joined["tokens_per_second"], 21);
  ASSERT_EQ(joined["events"].size(), 2u);
  EXPECT_EQ(joined["events"][0]["at"], 100);
  Json other = Fleet("r1", 100);
  other["workers"][0]["address"] = "10.0.0.2:50061";
  EXPECT_EQ(JoinFleets({Fleet("r0", 200), other})["workers"].size(), 2u);
}

Json Advice(double needed) {
  return {
      {"prefill",
       {{"ready", 4}, {"needed", needed}, {"advised", 5}, {"balanced", 3}, {"why", "4.4 of 4"}}},
      {"decode", {{"ready", 2}, {"why", "not known yet"}}},
      {"colocated", {{"workers", 4}, {"prompt_share", 0.123}}}};
}

TEST(FleetStatus, TellsHowManyWorkersTheLoadNeedsAndWhy) {
  Json fleet = Fleet("r0", 100);
  EXPECT_THAT(FleetTable(fleet, 0), Not(HasSubstr("ADVICE")));
  fleet["advice"] = Advice(4.4);
  const std::string table = FleetTable(fleet, 0);
  EXPECT_THAT(table, testing::ContainsRegex("prefill +5 +4 +3 +4.4 of 4\n"));
  EXPECT_THAT(table, testing::ContainsRegex("decode +- +2 +- +not known yet\n"));
  EXPECT_THAT(table, HasSubstr("4 workers with --disaggregate never would carry this load too"));
  EXPECT_THAT(table, HasSubstr("12 % of their time"));
}

TEST(FleetStatus, TheLoadsOfSeveralRoutersNeedTheSumOfTheirWorkers) {
  Json one = Fleet("r0", 200), other = Fleet("r1", 100);
  one["advice"] = Advice(4.4);
  other["advice"] = Advice(1.7);
  const Json advice = JoinFleets({one, other})["advice"];
  EXPECT_DOUBLE_EQ(advice["prefill"]["needed"], 4.4 + 1.7);
  EXPECT_EQ(advice["prefill"]["advised"], 7);
  EXPECT_EQ(advice["prefill"]["ready"], 4) << "they are the same workers";
  EXPECT_FALSE(advice["decode"].contains("advised")) << "no router knows it";
  EXPECT_FALSE(advice["prefill"].contains("balanced"));
  EXPECT_FALSE(advice.contains("colocated"));
  other["advice"]["prefill"].erase("needed");
  EXPECT_EQ(JoinFleets({one, other})["advice"]["prefill"]["advised"], 5) << "as the first says";
  other["advice"] = 7;
  EXPECT_EQ(JoinFleets({one, other})["advice"]["prefill"]["advised"], 5);
}

TEST(FleetStatus, WhatIsNoFleetIsRefused) {
  for (const char* body :
       {"", "<html>", "[]", "{}", R"({"routers":[1],"workers":[],"events":[]})"}) {
    EXPECT_FALSE(ParseFleet(body).ok()) << body;
  }
  EXPECT_TRUE(ParseFleet(Fleet("r0", 1).dump()).ok());
}

TEST(FleetStatus, NamesFromOutsideDoNotSteerTheTerminal) {
  Json fleet = Fleet("r\033[31m", 1);
  fleet["workers"][0]["problem"] = "a\nb\033]0;x\007";
  const std::string table = FleetTable(fleet, 8);
  EXPECT_THAT(table, Not(HasSubstr("\033")));
  EXPECT_THAT(table, Not(HasSubstr("a\nb")));
}

}  // namespace
}  // namespace baton
