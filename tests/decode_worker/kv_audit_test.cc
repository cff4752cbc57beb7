#include "decode_worker/kv_audit.h"

#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/common/engine/engine_harness.h"

namespace baton {
namespace {

using Outcome = AuditResult::Outcome;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class KvAuditTest : public ::testing::Test {
 protected:
  KvAudit Audit(double share) {
    return KvAudit(harness_.engine(), {.share = share,
                                       .random = [this] { return random_; },
                                       .on_quarantine = [this] { ++grown_; }});
  }
  static KvAudit::Push PushBy(const std::string& pusher, int start_token, int token_count) {
    KvAudit::Push push;
    push.pusher = pusher;
    push.start_token = start_token;
    push.token_count = token_count;
    return push;
  }
  // Ends the order, and returns what was logged.
  static std::string End(const std::optional<AuditOrder>& order, const AuditResult& result) {
    ::testing::internal::CaptureStderr();
    if (order) order->done(result);
    return ::testing::internal::GetCapturedStderr();
  }

  EngineHarness harness_{EngineHarness::SmallOptions()};  // blocks of 16 tokens
  uint64_t random_ = 0;
  int grown_ = 0;
};

TEST_F(KvAuditTest, ChoosesAmongTheBlocksThatWerePushed) {
  KvAudit audit = Audit(/*share=*/1);
  EXPECT_EQ(audit.Choose(PushBy("p", 32, 50))->block, 2);
  random_ = 1;
  EXPECT_EQ(audit.Choose(PushBy("p", 32, 50))->block, 3);
  EXPECT_FALSE(audit.Choose(PushBy("p", 64, 64)).has_value());
  EXPECT_FALSE(Audit(/*share=*/0).Choose(PushBy("p", 0, 50)).has_value());
}

TEST_F(KvAuditTest, WhoWroteWhatIsWrongIsQuarantined) {
  KvAudit audit = Audit(/*share=*/1);
  const KvAudit::Push push = PushBy("last", 0, 50);
  EXPECT_EQ(End(audit.Choose(push), {.outcome = Outcome::kMatch}), "");
  EXPECT_EQ(End(audit.Choose(push), {.outcome = Outcome::kSkipped}), "");
  EXPECT_THAT(audit.quarantined(), IsEmpty());
  EXPECT_EQ(grown_, 0);
  const std::string logged =
      End(audit.Choose(push),
          {.outcome = Outcome::kMismatch, .block = 1, .layer = 2, .page = 3, .source = "first"});
  EXPECT_THAT(logged, HasSubstr("wrong KV from 'first', found in a push of 'last'"));
  EXPECT_THAT(logged, HasSubstr("block 1, layer 2, page 3"));
  EXPECT_THAT(audit.quarantined(), ElementsAre("first"));
  EXPECT_EQ(audit.CheckTrusted("first").code(), absl::StatusCode::kUnavailable);
  EXPECT_TRUE(audit.CheckTrusted("last").ok());
  EXPECT_EQ(grown_, 1);
}

TEST_F(KvAuditTest, WhereNobodyWroteItAloneNobodyIsBlamed) {
  KvAudit audit = Audit(/*share=*/1);
  const std::string logged = End(audit.Choose(PushBy("last", 0, 50)),
                                 {.outcome = Outcome::kMismatch, .wrong_token = true});
  EXPECT_THAT(logged, HasSubstr("a first token; nobody is blamed"));
  EXPECT_THAT(audit.quarantined(), IsEmpty());
}

}  // namespace
}  // namespace baton
