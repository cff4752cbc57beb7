#include "decode_worker/attempt_registry.h"

#include <memory>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "common/backend/make_backend.h"
#include "tests/support/push_messages.h"

namespace baton {
namespace {

using internal::v1::AttemptKey;
using internal::v1::PushRefused;

AttemptKey RegistryKey(uint64_t request, uint32_t attempt, uint32_t choice = 0) {
  AttemptKey key;
  key.set_request_id_low(request);
  key.set_attempt(attempt);
  key.set_choice(choice);
  return key;
}

class AttemptRegistryTest : public ::testing::Test {
 protected:
  absl::Status Admit(const AttemptKey& key, uint32_t choices = 1) {
    return registry_.Admit(key, choices, [this, key](const absl::Status& status) {
      ended_.emplace_back(key.attempt(), status.code());
      EXPECT_LE(registry_.size(), 2u) << "called without its lock";
    });
  }
  PushRefused::Reason ReasonFor(const AttemptKey& key) const {
    PushRefused::Reason reason = PushRefused::REASON_UNSPECIFIED;
    EXPECT_EQ(registry_.Find(key, &reason), nullptr);
    return reason;
  }

  AttemptRegistry registry_{2};
  std::vector<std::pair<uint32_t, absl::StatusCode>> ended_;
};

TEST_F(AttemptRegistryTest, AHigherAttemptEndsALowerOneThatLives) {
  EXPECT_TRUE(Admit(RegistryKey(1, 1), /*choices=*/3).ok());
  EXPECT_EQ(Admit(RegistryKey(1, 1)).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_TRUE(Admit(RegistryKey(1, 4, /*choice=*/2)).ok());
  using Ended = std::pair<uint32_t, absl::StatusCode>;
  EXPECT_EQ(ended_, (std::vector<Ended>{{1, absl::StatusCode::kAborted}}));
  registry_.Remove(RegistryKey(1, 1));
  EXPECT_EQ(Admit(RegistryKey(1, 3, /*choice=*/2)).code(), absl::StatusCode::kAborted);
  EXPECT_EQ(ReasonFor(RegistryKey(1, 3, 2)), PushRefused::REASON_SUPERSEDED);
  EXPECT_EQ(registry_.size(), 1u);
  EXPECT_EQ(ended_.size(), 1u);
}

TEST_F(AttemptRegistryTest, NoMoreLiveThanItTakes) {
  EXPECT_TRUE(Admit(RegistryKey(1, 1)).ok());
  EXPECT_TRUE(Admit(RegistryKey(2, 1)).ok());
  EXPECT_EQ(Admit(RegistryKey(3, 1)).code(), absl::StatusCode::kResourceExhausted);
  registry_.Remove(RegistryKey(2, 1));
  EXPECT_TRUE(Admit(RegistryKey(3, 1)).ok());
  registry_.EndAll(absl::CancelledError("end"));
  using Ended = std::pair<uint32_t, absl::StatusCode>;
  EXPECT_EQ(ended_, (std::vector<Ended>(2, {1, absl::StatusCode::kCancelled})));
  EXPECT_EQ(registry_.size(), 2u) << "who is ended removes itself";
}

TEST_F(AttemptRegistryTest, APushFindsTheDriverFromWhenItIsExpectedToTheEnd) {
  const KvLayout layout = {.layers = 1, .kv_heads = 1, .head_dim = 4, .block_size = 16};
  const std::unique_ptr<Backend> backend = *MakeBackend({.device = "cpu", .threads = 1});
  const std::unique_ptr<KvCache> cache = *KvCache::Create(*backend, layout, 1);
  const AttemptKey key = RegistryKey(1, 1);
  EXPECT_EQ(ReasonFor(key), PushRefused::REASON_UNKNOWN_ATTEMPT);
  EXPECT_TRUE(Admit(key).ok());
  EXPECT_EQ(ReasonFor(key), PushRefused::REASON_UNKNOWN_ATTEMPT);
  const auto driver = std::make_shared<ReceiveDriver>(
      MakeReceiverConfig(layout, 16), *cache, /*staging=*/nullptr, ReceiveDriver::Callbacks());
  registry_.Expect(key, driver);
  PushRefused::Reason reason = PushRefused::REASON_UNSPECIFIED;
  EXPECT_EQ(registry_.Find(key, &reason), driver);
  registry_.Expect(RegistryKey(2, 1), driver);
  EXPECT_EQ(ReasonFor(RegistryKey(2, 1)), PushRefused::REASON_UNKNOWN_ATTEMPT) << "it never lived";
  registry_.Remove(key);
  EXPECT_EQ(ReasonFor(key), PushRefused::REASON_UNKNOWN_ATTEMPT);
}

}  // namespace
}  // namespace baton
