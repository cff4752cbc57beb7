#include "router/page/request_record.h"

#include <set>
#include <string>

#include "gtest/gtest.h"

#include "common/rpc/status.h"

namespace baton {
namespace {

constexpr RequestStage kStages[] = {
    RequestStage::kQueued, RequestStage::kPrefill, RequestStage::kTransfer,  RequestStage::kDecode,
    RequestStage::kDone,   RequestStage::kFailed,  RequestStage::kCancelled,
};

TEST(RequestRecord, EveryStageHasANameOfItsOwn) {
  std::set<std::string> names;
  for (const RequestStage stage : kStages) names.insert(RequestStageName(stage));
  EXPECT_EQ(names.size(), std::size(kStages));
  EXPECT_EQ(names.count(""), 0u);
  EXPECT_EQ(std::string(RequestStageName(RequestStage::kTransfer)), "transfer");
}

TEST(RequestRecord, HasEndedInTheLastThreeStages) {
  for (const RequestStage stage : kStages) {
    const bool ended = stage == RequestStage::kDone || stage == RequestStage::kFailed ||
                       stage == RequestStage::kCancelled;
    EXPECT_EQ(RequestRecord{.stage = stage}.ended(), ended) << RequestStageName(stage);
  }
}

TEST(FailureText, HasCodeReasonAndStageAndNeverTheMessage) {
  const absl::Status plain = absl::UnavailableError("the client's own text");
  EXPECT_EQ(FailureText(plain), "UNAVAILABLE");
  EXPECT_EQ(FailureText(WithErrorInfo(plain, {.reason = kReasonWorkerLost})),
            "UNAVAILABLE WORKER_LOST");
  EXPECT_EQ(FailureText(WithErrorInfo(
                plain, {.reason = kReasonWorkerLost, .stage = kStageDecode, .worker = "d"})),
            "UNAVAILABLE WORKER_LOST in stage decode");
}

TEST(FailureText, AReasonFromAWorkerIsMadeSafe) {
  EXPECT_EQ(FailureText(WithErrorInfo(absl::InternalError(""), {.reason = "A\n\"B"})),
            "INTERNAL A\\u000a\\u0022B");
}

}  // namespace
}  // namespace baton
