#include "client/doctor/findings_text.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <nlohmann/json.hpp>

namespace baton {
namespace {

using ::testing::HasSubstr;

Findings Some() {
  return {{.check = "cpu.cores", .found = "2 of 2 CPUs are available"},
          {.check = "port.free",
           .subject = "router.toml --listen 127.0.0.1:1",
           .verdict = Verdict::kFailed,
           .found = "in use by \033[2J\n",
           .remedy = "stop it"}};
}

TEST(FindingsTable, HasALineForEachAndOneForARemedyAndCountsAllVerdicts) {
  EXPECT_EQ(FindingsTable(Some()),
            "ok       cpu.cores  2 of 2 CPUs are available\n"
            "failed   port.free  router.toml --listen 127.0.0.1:1: in use by ?[2J \n"
            "                    -> stop it\n"
            "1 ok, 0 warning, 1 failed, 0 skipped\n");
}

TEST(FindingsJson, HasTheSameFacts) {
  const auto json = nlohmann::json::parse(FindingsJson(Some()));
  EXPECT_EQ(json["checks"].size(), 2u);
  EXPECT_EQ(json["checks"][0], nlohmann::json({{"check", "cpu.cores"},
                                               {"verdict", "ok"},
                                               {"found", "2 of 2 CPUs are available"}}));
  EXPECT_EQ(json["checks"][1]["subject"], "router.toml --listen 127.0.0.1:1");
  EXPECT_EQ(json["checks"][1]["remedy"], "stop it");
  EXPECT_EQ(json["failed"], 1);
  EXPECT_EQ(json["warning"], 0);
}

TEST(FindingsJson, TakesWhatIsNoUtf8) {
  EXPECT_THAT(FindingsJson({{.check = "model.served", .found = "\xff"}}),
              HasSubstr("model.served"));
}

TEST(AnyFailed, IsNoMatterOfWarnings) {
  EXPECT_TRUE(AnyFailed(Some()));
  EXPECT_FALSE(AnyFailed({{.check = "a", .verdict = Verdict::kWarning},
                          {.check = "b", .verdict = Verdict::kSkipped}}));
}

}  // namespace
}  // namespace baton
