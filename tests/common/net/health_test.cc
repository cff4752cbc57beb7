#include "common/net/health.h"

#include <atomic>
#include <map>

#include "absl/time/clock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

class FakeService final : public grpc::HealthCheckServiceInterface {
 public:
  void SetServingStatus(const std::string& name, bool serving) override {
    absl::MutexLock lock(&mutex_);
    statuses_[name] = serving;
  }
  void SetServingStatus(bool) override {}
  bool Get(const std::string& name) {
    absl::MutexLock lock(&mutex_);
    return statuses_.at(name);
  }

 private:
  absl::Mutex mutex_;
  std::map<std::string, bool> statuses_;
};

TEST(ProgressJudge, IsStuckOnlyWithWorkAndWithoutProgress) {
  ProgressJudge judge;
  absl::Time now = absl::UnixEpoch();
  const auto after = [&](absl::Duration step, ProgressSample sample) {
    now += step;
    judge.Observe(sample, now);
    return judge.stuck();
  };
  EXPECT_EQ(after(absl::Seconds(1), {7, 0}), absl::ZeroDuration());
  EXPECT_EQ(after(absl::Seconds(9), {7, 0}), absl::ZeroDuration()) << "idle is not stuck";
  EXPECT_EQ(after(absl::Seconds(1), {7, 1}), absl::Seconds(1));
  EXPECT_EQ(after(absl::Seconds(2), {7, 3}), absl::Seconds(3));
  EXPECT_EQ(after(absl::Seconds(1), {8, 3}), absl::ZeroDuration());
  EXPECT_EQ(after(absl::Seconds(3), {8, 3}), absl::Seconds(3));
  EXPECT_EQ(after(absl::Seconds(1), {8, 0}), absl::ZeroDuration());
}

TEST(Health, StartupStaysReadinessFollowsTheState) {
  FakeService service;
  Health health({.services = {"baton.v1.GenerationService"}});
  health.Attach(&service);
  EXPECT_FALSE(service.Get("startup"));
  EXPECT_FALSE(service.Get("readiness"));
  EXPECT_TRUE(service.Get("liveness"));
  health.SetState(ServerState::kReady);
  for (const char* name : {"startup", "readiness", "liveness", "", "baton.v1.GenerationService"}) {
    EXPECT_TRUE(service.Get(name)) << name;
  }
  health.SetState(ServerState::kDraining);
  EXPECT_TRUE(service.Get("startup"));
  EXPECT_TRUE(service.Get("liveness")) << "a draining process must not be restarted";
  for (const char* name : {"readiness", "", "baton.v1.GenerationService"}) {
    EXPECT_FALSE(service.Get(name)) << name;
  }
  health.Detach(&service);
}

TEST(Health, IsNotReadyWhileItsConditionFails) {
  std::atomic<bool> workers_are_there = false;
  Health health({.ready = [&] { return workers_are_there.load(); }});
  health.SetState(ServerState::kReady);
  EXPECT_FALSE(health.ready());
  workers_are_there = true;
  EXPECT_TRUE(health.Refresh());
}

TEST(Health, AConditionIsAServiceOfItsOwn) {
  FakeService service;
  std::atomic<bool> all_there = false;
  Health health({.conditions = {{"all_workers", [&] { return all_there.load(); }}}});
  health.Attach(&service);
  health.SetState(ServerState::kReady);
  EXPECT_FALSE(service.Get("all_workers"));
  EXPECT_TRUE(service.Get("readiness"));
  all_there = true;
  health.Refresh();
  EXPECT_TRUE(service.Get("all_workers"));
}

TEST(Health, AStuckEngineIsFoundWithoutBeingAsked) {
  Health health(
      {.progress = [] { return ProgressSample{.progress = 1, .runnable_sequences = 1}; }});
  health.SetState(ServerState::kReady);
  EXPECT_TRUE(health.ready());
  for (int i = 0; i < 100 && health.ready(); ++i) absl::SleepFor(absl::Milliseconds(100));
  EXPECT_FALSE(health.ready());
  EXPECT_TRUE(health.live());
}

}  // namespace
}  // namespace baton
