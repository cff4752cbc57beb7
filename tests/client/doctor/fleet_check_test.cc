#include "client/doctor/fleet_check.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/client/doctor/find_finding.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using Json = nlohmann::ordered_json;

Json Worker(const std::string& role, const std::string& name) {
  return {{"name", name},          {"role", role},          {"address", name + ":1"},
          {"state", "ready"},      {"version", "0.1"},      {"weights", "Q4_1"},
          {"identity", "model a"}, {"numerics", "cpu/f16"}, {"kv_dtype", "f16"}};
}

Json Fleet(const std::vector<Json>& workers) {
  Json fleet;
  fleet["workers"] = workers;
  return fleet;
}

Json Pair() { return Fleet({Worker("prefill", "p"), Worker("decode", "d")}); }

Finding InFleet(const Json& fleet, const char* check) {
  return FindFinding(FleetFindings("router:8080", fleet), check);
}

TEST(FleetFindings, OfAPairThatFitsAreOk) {
  const Findings findings = FleetFindings("router:8080", Pair());
  EXPECT_EQ(findings.size(), 7u);
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.verdict, Verdict::kOk) << finding.check << ": " << finding.found;
  }
}

TEST(FleetFindings, NameWorkersOfDifferentModels) {
  Json fleet = Pair();
  fleet["workers"][0]["identity"] = "model b";
  const Finding model = InFleet(fleet, "fleet.model");
  EXPECT_EQ(model.verdict, Verdict::kFailed) << "the prefill worker finds no decode worker";
  EXPECT_THAT(model.found,
              AllOf(HasSubstr("{model a}: decode d"), HasSubstr("{model b}: prefill p")));
  fleet["workers"].push_back(Worker("prefill", "p2"));
  fleet["workers"][0]["role"] = "decode";
  EXPECT_EQ(InFleet(fleet, "fleet.model").verdict, Verdict::kWarning) << "both models are served";
}

TEST(FleetFindings, WarnOfOtherKvTypesNumericsAndVersions) {
  Json fleet = Pair();
  fleet["workers"][1]["kv_dtype"] = "int8";
  fleet["workers"][1]["numerics"] = "cpu/int8";
  fleet["workers"][1]["version"] = "0.2";
  for (const char* check : {"fleet.kv_type", "fleet.numerics", "fleet.version"}) {
    EXPECT_EQ(InFleet(fleet, check).verdict, Verdict::kWarning) << check;
  }
  EXPECT_THAT(InFleet(fleet, "fleet.kv_type").found, HasSubstr("int8 of decode d"));
}

TEST(FleetFindings, SayWhatIsWrongWithEachWorker) {
  Json fleet = Pair();
  fleet["workers"][1]["state"] = "refused";
  fleet["workers"][1]["problem"] = "it has another tokenizer";
  const Finding worker = FindFinding(FleetFindings("r", fleet), "fleet.worker", "decode d");
  EXPECT_EQ(worker.verdict, Verdict::kFailed);
  EXPECT_THAT(worker.found, HasSubstr("it has another tokenizer"));
  EXPECT_EQ(InFleet(fleet, "fleet.roles").verdict, Verdict::kFailed) << "no decode worker is left";
  fleet["workers"][1]["state"] = "starting";
  EXPECT_EQ(FindFinding(FleetFindings("r", fleet), "fleet.worker", "decode d").verdict,
            Verdict::kWarning);
}

TEST(FleetFindings, NameALinkOnWhichHandOffsFailWithBothEndsTheReasonAndTheRemedy) {
  Json fleet = Pair();
  fleet["links"] = Json::array({{{"prefill_worker", "p"},
                                 {"decode_worker", "d"},
                                 {"prefill_address", "10.0.0.1:1"},
                                 {"decode_address", "10.0.0.2:2"},
                                 {"reason", "large_packets"},
                                 {"problem", "no KV was acknowledged"}}});
  Finding link = InFleet(fleet, "fleet.link");
  EXPECT_EQ(link.verdict, Verdict::kFailed);
  EXPECT_EQ(link.subject, "prefill p 10.0.0.1:1 to decode d 10.0.0.2:2");
  EXPECT_EQ(link.found, "hand-offs fail (large_packets): no KV was acknowledged");
  EXPECT_THAT(link.remedy, HasSubstr("MTU"));
  fleet["links"][0]["reason"] = "of a later version";
  EXPECT_THAT(InFleet(fleet, "fleet.link").remedy, HasSubstr("logs of both workers"));
}

TEST(FleetFindings, WarnOfAFleetWithoutPrefillWorkers) {
  EXPECT_EQ(InFleet(Fleet({Worker("decode", "d")}), "fleet.roles").verdict, Verdict::kWarning);
  EXPECT_EQ(InFleet(Fleet({}), "fleet.roles").verdict, Verdict::kFailed);
}

TEST(FleetFindings, TakeAnswersOfOtherShapes) {
  Json worker;
  worker["state"] = 7;
  EXPECT_EQ(InFleet(Fleet({worker}), "fleet.model").verdict, Verdict::kSkipped);
}

}  // namespace
}  // namespace baton
