#include "common/net/acceptor.h"

#include <unistd.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/address.h"
#include "tests/common/net/test_sockets.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

class AcceptorTest : public ::testing::Test {
 protected:
  ~AcceptorTest() override {
    if (acceptor_ != nullptr) acceptor_->Stop();
    CloseTaken();
  }

  void Start(const Acceptor::Options& options, const std::string& address = "127.0.0.1:0") {
    auto acceptor = Acceptor::Listen("--listen", address, options);
    ASSERT_TRUE(acceptor.ok()) << acceptor.status();
    acceptor_ = *std::move(acceptor);
    acceptor_->Start([this](int /*listener*/, int connection) {
      absl::MutexLock lock(&mutex_);
      open_.push_back(connection);
      ++taken_;
    });
  }
  TestSocket Connected(const std::string& source = "127.0.0.1") {
    TestSocket socket(source);
    EXPECT_TRUE(socket.Connect(acceptor_->address()));
    return socket;
  }
  // Whether that many connections have been taken, ever; waits for them.
  bool HasTaken(int count) {
    absl::MutexLock lock(&mutex_);
    const auto taken = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return taken_ >= count; };
    return mutex_.AwaitWithTimeout(absl::Condition(&taken), absl::Seconds(10)) && taken_ == count;
  }
  // Connects until more than `count` connections have been taken.
  bool TakesAgain(int count) {
    std::vector<TestSocket> sockets;
    for (int i = 0; i < 10000; ++i) {
      sockets.push_back(Connected());
      absl::SleepFor(absl::Milliseconds(1));
      absl::MutexLock lock(&mutex_);
      if (taken_ > count) return true;
    }
    return false;
  }
  void CloseTaken() {
    absl::MutexLock lock(&mutex_);
    for (const int fd : open_) close(fd);
    open_.clear();
  }
  bool BecomesLive(bool live) {
    const absl::Time end = absl::Now() + absl::Seconds(10);
    while (acceptor_->live() != live && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
    return acceptor_->live() == live;
  }

  std::unique_ptr<Acceptor> acceptor_;
  absl::Mutex mutex_;
  std::vector<int> open_ ABSL_GUARDED_BY(mutex_);
  int taken_ ABSL_GUARDED_BY(mutex_) = 0;
};

TEST_F(AcceptorTest, GivesEveryConnectionAway) {
  Start({});
  std::vector<TestSocket> sockets;
  for (int i = 1; i <= 3; ++i) {
    sockets.push_back(Connected());
    ASSERT_TRUE(HasTaken(i));
  }
}

TEST_F(AcceptorTest, OneConnectionTooManyIsClosedUntilAnotherEnds) {
  Start({.max_connections = 2});
  const TestSocket first = Connected(), second = Connected();
  ASSERT_TRUE(HasTaken(2));
  EXPECT_TRUE(Connected().IsClosed());
  CloseTaken();
  EXPECT_TRUE(TakesAgain(2));  // it looks for closed connections ten times a second
}

// A client from the port by which it connected to itself is a client like others.
TEST_F(AcceptorTest, WhoComesFromAnyPortIsGivenAway) {
  constexpr int kMany = 1 << 20;
  Start({.max_connections = kMany,
         .max_connections_of_peer = kMany,
         .silent_timeout = absl::Hours(1)});
  const TestSocket behind_its_own = Connected();
  ASSERT_TRUE(HasTaken(1));
  int first = 0, last = 0, connected = 1;
  std::ifstream("/proc/sys/net/ipv4/ip_local_port_range") >> first >> last;
  ASSERT_LT(first, last);
  for (int port = first; port <= last; ++port) {
    TestSocket socket("127.0.0.1", static_cast<uint16_t>(port));
    if (!socket.Connect(acceptor_->address())) continue;  // somebody else's port
    if (++connected % 500 == 0) CloseTaken();
  }
  EXPECT_GT(connected, (last - first) / 2);
  EXPECT_TRUE(HasTaken(connected));
}

TEST_F(AcceptorTest, OnePeerCannotHaveAllConnections) {
  Start({.max_connections = 3, .max_connections_of_peer = 2});
  const TestSocket first = Connected(), second = Connected();
  ASSERT_TRUE(HasTaken(2));
  EXPECT_TRUE(Connected().IsClosed());
  const TestSocket other = Connected("127.0.0.2");
  EXPECT_TRUE(HasTaken(3));
}

TEST_F(AcceptorTest, WhoConnectsTooOftenIsClosedBeforeAByteIsReadAndOthersAreNot) {
  Start({.rate = {.per_second = 1e-3, .burst = 2}});
  TestSocket first = Connected(), second = Connected();
  ASSERT_TRUE(HasTaken(2));
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(Connected().IsClosed());
  const TestSocket other = Connected("127.0.0.2");
  EXPECT_TRUE(HasTaken(3));
  EXPECT_TRUE(first.IsOpen());
  EXPECT_TRUE(second.IsOpen());
}

TEST_F(AcceptorTest, WhoConnectedTooOftenMayConnectAgainLater) {
  Start({.rate = {.per_second = 50, .burst = 1}});
  const TestSocket first = Connected();
  ASSERT_TRUE(HasTaken(1));
  EXPECT_TRUE(TakesAgain(1));
}

// Otherwise its own port would be dead to it, and be restarted.
TEST_F(AcceptorTest, ThePortHearsItselfThoughItsAddressConnectsTooOften) {
  Start({.rate = {.per_second = 1e-3, .burst = 1}, .silent_timeout = absl::Seconds(1)});
  const TestSocket first = Connected();
  ASSERT_TRUE(HasTaken(1));
  const absl::Time end = absl::Now() + absl::Seconds(2);
  while (absl::Now() < end) {
    EXPECT_TRUE(Connected().IsClosed());
    ASSERT_TRUE(acceptor_->live());
  }
}

// How often the threads of this process but the calling one have gone to sleep.
int64_t SleepsOfOthers() {
  int64_t sleeps = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    if (task.path().filename() == std::to_string(gettid())) continue;
    std::ifstream status(task.path() / "status");
    for (std::string word; status >> word;) {
      int64_t count = 0;
      if (word == "voluntary_ctxt_switches:" && status >> count) sleeps += count;
    }
  }
  return sleeps;
}

// A thread that wakes for each would take the CPU from others.
TEST_F(AcceptorTest, AFloodOfThoseWhoAreRefusedIsAnsweredInBatches) {
  std::atomic<int> refusals = 0;
  Start({.rate = {.per_second = 1e-3, .burst = 1}, .refused = [&](auto) { ++refusals; }});
  const TestSocket first = Connected();
  ASSERT_TRUE(HasTaken(1));
  const int64_t sleeps_before = SleepsOfOthers();
  const absl::Time begin = absl::Now();
  for (int i = 0; i < 60; ++i) EXPECT_TRUE(Connected().IsClosed());
  const int64_t pauses = (absl::Now() - begin) / absl::Milliseconds(5) + 1;
  // Each pause is one sleep, and another one may follow until somebody comes.
  EXPECT_LE(SleepsOfOthers() - sleeps_before, 2 * pauses + 20);
  EXPECT_EQ(refusals, 60);
  acceptor_->Stop();  // before `refusals` ends
}

TEST_F(AcceptorTest, TellsWhyEachIsRefused) {
  absl::Mutex mutex;
  std::vector<Acceptor::Refusal> reasons;
  std::atomic<MemoryLevel> level = MemoryLevel::kEnough;
  Start({.max_connections_of_peer = 1,
         .rate = {.per_second = 1e-3, .burst = 1},
         .memory = [&] { return level.load(); },
         .refused =
             [&](Acceptor::Refusal reason) {
               absl::MutexLock lock(&mutex);
               reasons.push_back(reason);
             }});
  const TestSocket first = Connected();
  ASSERT_TRUE(HasTaken(1));
  EXPECT_TRUE(Connected().IsClosed());
  const auto last = [&] {
    absl::MutexLock lock(&mutex);
    return reasons.back();
  };
  EXPECT_EQ(last(), Acceptor::Refusal::kRoom);
  CloseTaken();
  const absl::Time end = absl::Now() + absl::Seconds(10);
  while (last() != Acceptor::Refusal::kRate && absl::Now() < end) {
    EXPECT_TRUE(Connected().IsClosed());
  }
  EXPECT_EQ(last(), Acceptor::Refusal::kRate);
  level = MemoryLevel::kShort;
  while (last() != Acceptor::Refusal::kMemory && absl::Now() < end) {
    EXPECT_TRUE(Connected().IsClosed());
  }
  EXPECT_EQ(last(), Acceptor::Refusal::kMemory);
  acceptor_->Stop();  // before what it calls ends
}

TEST_F(AcceptorTest, ClosesWhoComesWhileThereIsNotEnoughMemory) {
  std::atomic<MemoryLevel> level = MemoryLevel::kShort;
  Start({.memory = [&] { return level.load(); }});
  EXPECT_TRUE(Connected().IsClosed());
  level = MemoryLevel::kEnough;
  EXPECT_TRUE(TakesAgain(0));
  acceptor_->Stop();  // before `level` ends
}

TEST_F(AcceptorTest, ClosesTheConnectionsOfTheLargestPeerWhenMemoryIsFull) {
  std::atomic<MemoryLevel> level = MemoryLevel::kEnough;
  Start({.memory = [&] {
    // Full for one look, then only short.
    MemoryLevel full = MemoryLevel::kFull;
    level.compare_exchange_strong(full, MemoryLevel::kShort);
    return full == MemoryLevel::kFull ? full : level.load();
  }});
  TestSocket small = Connected("127.0.0.2"), first = Connected(), second = Connected();
  ASSERT_TRUE(HasTaken(3));
  level = MemoryLevel::kFull;
  EXPECT_TRUE(first.IsClosed());
  EXPECT_TRUE(second.IsClosed());
  EXPECT_TRUE(small.IsOpen());
  CloseTaken();
  EXPECT_TRUE(small.IsClosed());
  acceptor_->Stop();
}

TEST_F(AcceptorTest, WithoutDescriptorsItClosesWhoComesAndIsDeadThenAcceptsAgain) {
  Start({.silent_timeout = absl::Milliseconds(200)});
  TestSocket refused, taken;
  {
    const NoMoreDescriptors none;
    ASSERT_TRUE(refused.Connect(acceptor_->address()));
    EXPECT_TRUE(refused.IsClosed());
    EXPECT_TRUE(BecomesLive(false));
  }
  EXPECT_TRUE(BecomesLive(true));
  ASSERT_TRUE(taken.Connect(acceptor_->address()));
  absl::MutexLock lock(&mutex_);
  const auto some = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) { return taken_ > 0; };
  EXPECT_TRUE(mutex_.AwaitWithTimeout(absl::Condition(&some), absl::Seconds(10)));
}

TEST_F(AcceptorTest, AnAddressInUseIsAnErrorThatNamesTheFlag) {
  Start({});
  const auto second = Acceptor::Listen("--listen", acceptor_->address(), {});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(std::string(second.status().message()), HasSubstr("--listen"));
}

TEST_F(AcceptorTest, StoppedItAcceptsNobodyAndGivesThePortBack) {
  Start({});
  const std::string address = acceptor_->address();
  acceptor_->Stop();
  EXPECT_FALSE(TestSocket().Connect(address));
  Start({}, address);
  EXPECT_EQ(acceptor_->address(), address);
}

}  // namespace
}  // namespace baton
