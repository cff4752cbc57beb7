#include "router/access_log/access_entry.h"

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/clock.h"
#include "common/rpc/status.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class AccessEntryTest : public ::testing::Test {
 protected:
  AccessEntryTest() {
    auto log = AccessLog::Start({.target = path_}, metrics_);
    EXPECT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
  }
  std::shared_ptr<AccessEntry> Begin(bool only_errors = false) {
    return AccessEntry::Begin(
        log_.get(), {.route = "/r", .unanswered = "499", .only_errors = only_errors}, SteadyNow());
  }
  std::vector<std::string> Lines() {
    EXPECT_TRUE(log_->Close(absl::Seconds(30)));
    std::vector<std::string> lines;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }

  Metrics metrics_{"router"};
  const TemporaryFolder folder_{"access_entry"};
  const std::string path_ = folder_.path() + "/access.log";
  std::unique_ptr<AccessLog> log_;
};

TEST_F(AccessEntryTest, TheLineIsAddedWhenTheLastOfThoseWhoWorkOnTheRequestLetsItGo) {
  auto connection = Begin();
  auto first_prompt = connection, second_prompt = connection;
  connection->SetId("7c");
  connection->Identified("acme", true);
  connection->Answered(200);
  connection->Ended(SteadyNow());
  connection.reset();
  first_prompt->Worked({.prompt_tokens = 3,
                        .cached_tokens = 1,
                        .output_tokens = 5,
                        .attempts = 1,
                        .time_to_first_token = absl::Milliseconds(30)});
  first_prompt.reset();
  second_prompt->Worked({.prompt_tokens = 4,
                         .output_tokens = 6,
                         .attempts = 3,
                         .time_to_first_token = absl::Milliseconds(20)});
  second_prompt.reset();
  EXPECT_THAT(Lines(),
              ElementsAre(AllOf(HasSubstr(" id=7c tenant=acme route=/r status=200 prompt_tokens=7 "
                                          "cached_tokens=1 output_tokens=11 ttft_ms=20.0 "
                                          "attempts=3 total_ms="),
                                Not(HasSubstr("error")))));
}

TEST_F(AccessEntryTest, TheFirstFailureCountsByItsReasonOrElseItsCode) {
  auto entry = Begin();
  entry->Failed(WithErrorInfo(absl::UnavailableError("words"), {.reason = "QUEUE_FULL"}));
  entry->Failed(absl::CancelledError("words"));
  entry->Answered(503);
  entry.reset();
  entry = Begin();
  entry->Answered(absl::InvalidArgumentError("words"));
  entry.reset();
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("status=503 error=QUEUE_FULL "),
                                   HasSubstr("status=INVALID_ARGUMENT error=INVALID_ARGUMENT ")));
}

TEST_F(AccessEntryTest, AClientThatLeavesBeforeAnAnswerHasALine) {
  Begin().reset();
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("status=499 error=CANCELLED ")));
}

TEST_F(AccessEntryTest, WhatIsAskedAgainAndAgainHasLinesOnlyIfItFails) {
  Begin(/*only_errors=*/true)->Answered(200);
  Begin(/*only_errors=*/true)->Answered(503);
  EXPECT_THAT(Lines(), ElementsAre(HasSubstr("status=503 ")));
}

TEST_F(AccessEntryTest, ThereIsNoneWithoutALog) {
  EXPECT_EQ(AccessEntry::Begin(nullptr, {}, SteadyNow()), nullptr);
  EXPECT_THAT(Lines(), IsEmpty());
}

}  // namespace
}  // namespace baton
