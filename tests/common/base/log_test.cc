#include "common/base/log.h"

#include <time.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

#include "common/base/log_banner.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

// The text that `log` writes to stderr under InitLogging(level, format).
std::string Logged(const std::string& level, const std::string& format,
                   const std::function<void()>& log) {
  CurrentLogger();
  const std::shared_ptr<spdlog::logger> before = spdlog::default_logger();
  ::testing::internal::CaptureStderr();
  EXPECT_TRUE(InitLogging("router", level, format).ok());
  log();
  const std::string lines = ::testing::internal::GetCapturedStderr();
  spdlog::set_default_logger(before);
  return lines;
}

std::string EveryByte() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  return bytes;
}

TEST(Log, JsonLinesAreValidWhateverTheMessage) {
  for (const std::string& message :
       {std::string("plain"), std::string("\"quoted\" \\ {} %v \n\r\t\x7f"),
        std::string("h\u00e9 \u4f60\U0001F600"), std::string("cut \xf0\x9f\x98"),
        std::string("\xff\xfe\xc0\x80"), EveryByte(), std::string()}) {
    const std::string line = Logged("info", "json", [&] { LogInfo("{}", message); });
    ASSERT_FALSE(line.empty());
    EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
    const nlohmann::json object = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    ASSERT_TRUE(object.is_object()) << line;
    EXPECT_EQ(object.at("level"), "info");
    EXPECT_EQ(object.at("role"), "router");
    EXPECT_TRUE(object.at("message").is_string());
  }
}

TEST(Log, ABannerIsLinesOfTextOrOneMessageOfJson) {
  const auto banner = [] { LogBanner("worker on :1\n  model x"); };
  EXPECT_EQ(Logged("info", "text", banner), "worker on :1\n  model x\n");
  const std::string line = Logged("info", "json", banner);
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1) << line;
  EXPECT_EQ(nlohmann::json::parse(line).at("message"), "worker on :1\n  model x");
  EXPECT_EQ(Logged("warning", "text", banner), "");
}

// Takes the process to another zone while it lives.
class TimeZone {
 public:
  explicit TimeZone(const char* name) {
    setenv("TZ", name, 1);
    tzset();
  }
  ~TimeZone() {
    unsetenv("TZ");
    tzset();
  }
};

TEST(Log, TimesAreInUtcAndSaySoWhateverTheZoneOfTheMachine) {
  const TimeZone tokyo("UTC-9");
  const auto log = [] { LogInfo("now"); };
  const std::string text = Logged("info", "text", log);
  const std::string json = nlohmann::json::parse(Logged("info", "json", log)).at("time");
  for (const std::string& time : {text.substr(0, text.find(' ')), json}) {
    absl::Time read;
    std::string error;
    ASSERT_TRUE(absl::ParseTime("%Y-%m-%dT%H:%M:%E*SZ", time, absl::UTCTimeZone(), &read, &error))
        << time << ": " << error;
    EXPECT_LT(absl::AbsDuration(absl::Now() - read), absl::Minutes(5)) << time;
  }
}

TEST(Log, JsonKeepsAMessageThatIsUtf8) {
  const std::string message = "a \"b\" \\ c\nd h\u00e9";
  const std::string line = Logged("info", "json", [&] { LogInfo("{}", message); });
  EXPECT_EQ(nlohmann::json::parse(line).at("message"), message);
}

TEST(Log, JsonShowsWhereAMessageWasNotUtf8) {
  const std::string line = Logged("info", "json", [] { LogInfo("a{}b", "\xff"); });
  EXPECT_EQ(nlohmann::json::parse(line).at("message"), "a\uFFFDb");
}

TEST(Log, TextLinesCannotBeForged) {
  const std::string line =
      Logged("info", "text", [] { LogWarning("{}", "a\nforged \x1b[31m\r line"); });
  EXPECT_EQ(std::count(line.begin(), line.end(), '\n'), 1);
  EXPECT_THAT(line, HasSubstr("[router] a\\u000aforged \\u001b[31m\\u000d line\n"));
}

TEST(Log, LinesOfBothFormsHaveNothingThatATerminalInterprets) {
  const std::string message = "\x1b[2J\u009b2J\x7f\u202e";
  const auto log = [&] { LogWarning("{}", message); };
  EXPECT_THAT(Logged("info", "text", log),
              HasSubstr("[router] \\u001b[2J\\u009b2J\\u007f\\u202e\n"));
  const std::string line = Logged("info", "json", log);
  EXPECT_THAT(line, HasSubstr("\"\\u001b[2J\\u009b2J\\u007f\\u202e\""));
  EXPECT_EQ(nlohmann::json::parse(line).at("message"), message);
}

TEST(Log, LevelDecidesWhatIsWritten) {
  const auto log_all = [] {
    LogDebug("d{}", 1);
    LogInfo("i{}", 2);
    LogWarning("w{}", 3);
    LogError("e{}", 4);
  };
  const std::string lines = Logged("warning", "text", log_all);
  EXPECT_EQ(std::count(lines.begin(), lines.end(), '\n'), 2);
  EXPECT_THAT(lines, HasSubstr("w3"));
  EXPECT_THAT(lines, HasSubstr("e4"));
  EXPECT_EQ(Logged("off", "text", log_all), "");
}

TEST(Log, StdoutIsLeftAloneBeforeInitLoggingToo) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  LogInfo("early");
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), HasSubstr("[baton] early\n"));
  EXPECT_EQ(::testing::internal::GetCapturedStdout(), "");
}

TEST(Log, BadFlagsAreRefusedByName) {
  EXPECT_THAT(std::string(InitLogging("router", "loud", "text").message()),
              HasSubstr("--log-level: 'loud'"));
  EXPECT_THAT(std::string(InitLogging("router", "info", "xml").message()),
              HasSubstr("--log-format: 'xml'"));
}

TEST(LogSafe, LeavesPlainTextAlone) { EXPECT_EQ(LogSafe("a b~!'{}"), "a b~!'{}"); }

TEST(LogSafe, GivesTextThatMayStandInsideAJsonString) {
  const nlohmann::json parsed =
      nlohmann::json::parse("\"" + LogSafe(EveryByte().substr(0, 128)) + "\"", nullptr, false);
  EXPECT_EQ(parsed, nlohmann::json(EveryByte().substr(0, 128)));
  EXPECT_TRUE(nlohmann::json::accept("\"" + LogSafe(EveryByte().substr(128)) + "\""));
  EXPECT_EQ(LogSafe("\"\\\n\xff"), "\\u0022\\u005c\\u000a\\u00ff");
}

TEST(LogSafe, BoundsTheLength) {
  EXPECT_EQ(LogSafe(std::string(200, 'a')), std::string(200, 'a'));
  EXPECT_EQ(LogSafe(std::string(100000, 'a')), std::string(200, 'a') + "...");
  EXPECT_EQ(LogSafe(std::string(100000, '\n')).size(), 200u * 6 + 3);
}

}  // namespace
}  // namespace baton
