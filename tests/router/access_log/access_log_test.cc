#include "router/access_log/access_log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/clock.h"
#include "common/base/standard_output.h"
#include "tests/support/temporary_folder.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::SizeIs;

class AccessLogTest : public ::testing::Test {
 protected:
  AccessLogTest() { IgnoreSigpipe(); }

  void Start() {
    auto log = AccessLog::Start({.target = path_}, metrics_);
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = *std::move(log);
  }
  static AccessRecord Record(const std::string& id, bool identified = true) {
    return {.id = id, .identified = identified, .route = "/v1/completions", .status = "200"};
  }
  std::vector<std::string> Lines() {
    EXPECT_TRUE(log_->Close(absl::Seconds(30)));
    std::vector<std::string> lines;
    std::ifstream file(path_);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    return lines;
  }
  double Dropped(const std::string& reason) const {
    const std::string page = metrics_.Scrape();
    const size_t at = page.find("baton_access_log_dropped_total{reason=\"" + reason + "\"");
    if (at == std::string::npos) return -1;
    return std::stod(page.substr(page.find(' ', at)));
  }

  Metrics metrics_{"router"};
  const TemporaryFolder folder_{"access_log"};
  const std::string path_ = folder_.path() + "/access.log";
  const absl::Time now_ = absl::FromUnixSeconds(1000);
  std::unique_ptr<AccessLog> log_;
};

TEST_F(AccessLogTest, CallersWithoutIdentityGetTwentyLinesASecondAndTheNextTellsWhatIsMissing) {
  Start();
  for (int i = 0; i < 100; ++i) log_->Add(Record(absl::StrCat("u", i), false), now_);
  log_->Add(Record("known"), now_);
  log_->Add(Record("later", false), now_ + absl::Seconds(1));
  const std::vector<std::string> lines = Lines();
  ASSERT_THAT(lines, SizeIs(LineRate::kPerSecond + 2));
  EXPECT_EQ(Dropped("rate"), 80);
  int told = 0;
  for (const std::string& line : lines) told += absl::StrContains(line, "left_out=") ? 1 : 0;
  EXPECT_GE(told, 1);
  EXPECT_THAT(lines.back(), HasSubstr("id=later"));
}

TEST_F(AccessLogTest, APipeThatNobodyReadsHoldsUpNobodyAndWhatItMissesIsCountedAndTold) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  const int reader = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  ASSERT_GE(reader, 0);
  Start();
  // Far more than queue and pipe can hold.
  constexpr int kRequests = 20000;
  const absl::Time begin = SteadyNow();
  for (int i = 0; i < kRequests; ++i) log_->Add(Record(absl::StrCat(i)), now_);
  EXPECT_LT(SteadyNow() - begin, absl::Seconds(10));
  EXPECT_TRUE(log_->Close(absl::Seconds(10))) << "a reader that does not read holds up no end";
  const double missing = Dropped("queue_full") + Dropped("file");
  EXPECT_GT(missing, 0);

  std::string text;
  char bytes[4096];
  for (ssize_t n = 0; (n = read(reader, bytes, sizeof(bytes))) > 0;) {
    text.append(bytes, static_cast<size_t>(n));
  }
  close(reader);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n') + static_cast<long>(missing), kRequests);
  EXPECT_EQ(text.back(), '\n') << "no line is cut";
}

TEST_F(AccessLogTest, AfterAFailureTheNextLineTellsHowManyAreMissing) {
  ASSERT_EQ(mkfifo(path_.c_str(), 0600), 0);
  Start();
  for (int i = 0; i < 5; ++i) log_->Add(Record(absl::StrCat("lost", i)), now_);
  while (Dropped("file") < 5) std::this_thread::yield();
  const int reader = open(path_.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  log_->Add(Record("found"), now_);
  EXPECT_TRUE(log_->Close(absl::Seconds(30)));
  char bytes[4096];
  const ssize_t size = read(reader, bytes, sizeof(bytes));
  close(reader);
  ASSERT_GT(size, 0);
  const std::string text(bytes, static_cast<size_t>(size));
  EXPECT_THAT(text, HasSubstr("id=found"));
  EXPECT_THAT(text, HasSubstr("left_out=5\n"));
}

TEST_F(AccessLogTest, ThreadsMayAddWhileTheFileIsMovedAway) {
  Start();
  constexpr int kThreads = 4, kEach = 200;
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([this, t] {
      for (int i = 0; i < kEach; ++i) log_->Add(Record(absl::StrCat(t, "-", i)), now_);
    });
  }
  std::filesystem::rename(path_, path_ + ".1");
  for (std::thread& thread : threads) thread.join();
  log_->Add(Record("last"), now_);
  size_t lines = Lines().size();
  std::ifstream moved(path_ + ".1");
  for (std::string line; std::getline(moved, line);) ++lines;
  EXPECT_EQ(lines, kThreads * kEach + 1u);
}

TEST_F(AccessLogTest, AFolderThatIsMissingIsRefusedByTheFlag) {
  const auto log = AccessLog::Start({.target = "/nowhere/access.log"}, metrics_);
  EXPECT_EQ(log.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(log.status().message()), HasSubstr("--access-log /nowhere/access.log"));
}

}  // namespace
}  // namespace baton
