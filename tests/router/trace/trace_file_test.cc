#include "router/trace/trace_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include <nlohmann/json.hpp>

#include "tests/support/full_disk.h"

namespace baton {
namespace {

using Json = nlohmann::json;

constexpr uint64_t kLarge = uint64_t{1} << 30;

class TraceFileTest : public ::testing::Test {
 protected:
  TraceFileTest() {
    char folder[] = "/tmp/baton-trace-XXXXXX";
    folder_ = mkdtemp(folder);
    path_ = folder_ + "/trace.json";
  }
  ~TraceFileTest() override { std::filesystem::remove_all(folder_); }

  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }
  static RequestTrace RequestAt(int64_t us) {
    RequestTrace trace;
    trace.spans.push_back({.name = "request", .begin_ns = us * 1000, .end_ns = us * 1000 + 500});
    return trace;
  }
  // How many requests the events are about.
  static int Requests(const Json& events) {
    int count = 0;
    for (const Json& event : events) count += event.at("ph") == "X" ? 1 : 0;
    return count;
  }

  std::string folder_, path_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

TEST_F(TraceFileTest, IsWholeAtTheEndAndReadableBeforeIt) {
  auto file = TraceFile::Open(path_, kLarge, "router-1");
  ASSERT_TRUE(file.ok()) << file.status();
  for (int i = 0; i < 3; ++i) {
    ASSERT_TRUE((*file)->Write(RequestAt(i), now_).ok());
    const Json events = Json::parse(Read(path_) + "]");
    EXPECT_EQ(Requests(events), i + 1) << "as it is when the process is killed";
    EXPECT_EQ(events[0].at("args").at("name"), "router-1");
  }
  file->reset();
  EXPECT_EQ(Requests(Json::parse(Read(path_))), 3);
}

TEST_F(TraceFileTest, IsNotReadableByEverybody) {
  ASSERT_TRUE(TraceFile::Open(path_, kLarge, "router-1").ok());
  struct stat made = {};
  ASSERT_EQ(stat(path_.c_str(), &made), 0);
  EXPECT_EQ(made.st_mode & 0007, 0u);
}

TEST_F(TraceFileTest, StaysWithinItsBoundAndKeepsTheNewest) {
  constexpr uint64_t kBound = 4096;
  auto file = TraceFile::Open(path_, kBound, "router-1");
  ASSERT_TRUE(file.ok());
  constexpr int kRequests = 200;
  for (int i = 0; i < kRequests; ++i) ASSERT_TRUE((*file)->Write(RequestAt(i), now_).ok());
  file->reset();
  const Json now = Json::parse(Read(path_)), before = Json::parse(Read(path_ + ".1"));
  EXPECT_LE(Read(path_).size(), kBound);
  EXPECT_LE(Read(path_ + ".1").size(), kBound);
  EXPECT_EQ(now.back().at("ts"), kRequests - 1);
  EXPECT_EQ(before.back().at("ts"), kRequests - 1 - Requests(now)) << "none is left out";
  EXPECT_EQ(now[1].at("name"), "thread_name") << "its tracks have their names";
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder_), {}), 2);
}

TEST_F(TraceFileTest, ARequestThatExceedsTheBoundIsWrittenAllTheSame) {
  auto file = TraceFile::Open(path_, 10, "router-1");
  ASSERT_TRUE(file.ok());
  for (int i = 0; i < 2; ++i) ASSERT_TRUE((*file)->Write(RequestAt(i), now_).ok());
  file->reset();
  EXPECT_EQ(Requests(Json::parse(Read(path_))), 1);
  EXPECT_EQ(Requests(Json::parse(Read(path_ + ".1"))), 1);
}

TEST_F(TraceFileTest, TheFileOfTheRunBeforeIsKept) {
  std::ofstream(path_) << "before";
  ASSERT_TRUE(TraceFile::Open(path_, kLarge, "router-1").ok());
  EXPECT_EQ(Read(path_ + ".1"), "before");
}

TEST_F(TraceFileTest, OnAFullDiskItStaysReadableAndGoesOnOnceThereIsRoom) {
  auto file = TraceFile::Open(path_, kLarge, "router-1");
  ASSERT_TRUE(file.ok()) << file.status();
  ASSERT_TRUE((*file)->Write(RequestAt(0), now_).ok());
  {
    const FullDisk full(Read(path_).size() + 10);
    const absl::Status status = (*file)->Write(RequestAt(1), now_);
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_TRUE(absl::StrContains(status.message(), "--trace-file " + path_)) << status;
    EXPECT_EQ(Requests(Json::parse(Read(path_) + "]")), 1) << "no half of a request is left";
    now_ += TraceFile::kFirstPause;
    EXPECT_FALSE((*file)->Write(RequestAt(2), now_).ok());
  }
  EXPECT_FALSE((*file)->Write(RequestAt(3), now_).ok()) << "it is not tried at once";
  now_ += 2 * TraceFile::kFirstPause;
  EXPECT_TRUE((*file)->Write(RequestAt(4), now_).ok());
  EXPECT_TRUE((*file)->Write(RequestAt(5), now_).ok());
  file->reset();
  EXPECT_EQ(Requests(Json::parse(Read(path_))), 3);
}

TEST_F(TraceFileTest, AFileThatBeginsOrIsRenewedOnAFullDiskLosesNothingOlder) {
  std::ofstream(path_) << "before";
  {
    const FullDisk full(0);
    auto file = TraceFile::Open(path_, kLarge, "router-1");
    ASSERT_TRUE(file.ok()) << file.status();
    for (int i = 0; i < 5; ++i, now_ += TraceFile::kLongestPause) {
      EXPECT_FALSE((*file)->Write(RequestAt(i), now_).ok());
    }
    EXPECT_EQ(Read(path_ + ".1"), "before");
  }
  constexpr uint64_t kBound = 1024;
  auto file = TraceFile::Open(path_, kBound, "router-1");
  ASSERT_TRUE(file.ok());
  for (int i = 0; i < 100; ++i, now_ += TraceFile::kLongestPause) {
    const FullDisk full(i % 2 == 0 ? 300 : kBound);
    static_cast<void>((*file)->Write(RequestAt(i), now_));
    EXPECT_GE(Requests(Json::parse(Read(path_).empty() ? "[]" : Read(path_) + "]")), 0) << i;
  }
  file->reset();
  EXPECT_GT(Requests(Json::parse(Read(path_))), 0);
  EXPECT_GT(Requests(Json::parse(Read(path_ + ".1"))), 0);
}

TEST_F(TraceFileTest, AFileThatIsMovedDeletedOrEmptiedIsBegunAnew) {
  auto file = TraceFile::Open(path_, kLarge, "router-1");
  ASSERT_TRUE(file.ok());
  ASSERT_TRUE((*file)->Write(RequestAt(0), now_).ok());
  std::filesystem::rename(path_, folder_ + "/moved.json");
  ASSERT_TRUE((*file)->Write(RequestAt(1), now_).ok());
  std::filesystem::remove(path_);
  ASSERT_TRUE((*file)->Write(RequestAt(2), now_).ok());
  EXPECT_EQ(Requests(Json::parse(Read(path_) + "]")), 1);
  std::filesystem::resize_file(path_, 0);
  ASSERT_TRUE((*file)->Write(RequestAt(3), now_).ok());
  file->reset();
  EXPECT_EQ(Requests(Json::parse(Read(folder_ + "/moved.json"))), 1) << "and it is whole";
  const Json events = Json::parse(Read(path_));
  EXPECT_EQ(Requests(events), 1);
  EXPECT_EQ(events.back().at("ts"), 3);
  EXPECT_EQ(events[1].at("name"), "thread_name") << "its tracks have their names";
}

TEST_F(TraceFileTest, WhereItCannotBeWrittenTheErrorNamesItAndTheRemedy) {
  for (const std::string& bad : {folder_ + "/no/trace.json", folder_}) {
    const auto file = TraceFile::Open(bad, kLarge, "router-1");
    ASSERT_FALSE(file.ok());
    EXPECT_TRUE(absl::StartsWith(file.status().message(), absl::StrCat("--trace-file ", bad)));
    EXPECT_TRUE(absl::StrContains(file.status().message(), "name a file in a folder"));
  }
}

}  // namespace
}  // namespace baton
