#include "router/access_log/access_line.h"

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using nlohmann::json;

AccessRecord Whole() {
  return {.ended = absl::FromUnixMillis(1796000000123),
          .id = "7c1f",
          .tenant = "acme",
          .identified = true,
          .route = "/v1/chat/completions",
          .status = "200",
          .total = absl::Milliseconds(812.44),
          .work = AccessWork{.prompt_tokens = 812,
                             .cached_tokens = 768,
                             .output_tokens = 60,
                             .attempts = 2,
                             .time_to_first_token = absl::Milliseconds(83.06)}};
}

std::string EveryByte() {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  return bytes;
}

TEST(AccessLine, TextHasEachFieldOnceInOneShortLine) {
  EXPECT_EQ(AccessLine(Whole(), AccessFormat::kText, 0),
            "2026-11-30T00:53:20.123Z access id=7c1f tenant=acme route=/v1/chat/completions "
            "status=200 prompt_tokens=812 cached_tokens=768 output_tokens=60 ttft_ms=83.1 "
            "attempts=2 total_ms=812.4\n");
}

TEST(AccessLine, JsonHasTheSameNamesBesideThoseOfEveryLineOfTheLog) {
  EXPECT_EQ(json::parse(AccessLine(Whole(), AccessFormat::kJson, 3)),
            (json{{"time", "2026-11-30T00:53:20.123Z"},
                  {"level", "info"},
                  {"role", "router"},
                  {"message", "access"},
                  {"id", "7c1f"},
                  {"tenant", "acme"},
                  {"route", "/v1/chat/completions"},
                  {"status", "200"},
                  {"prompt_tokens", 812},
                  {"cached_tokens", 768},
                  {"output_tokens", 60},
                  {"ttft_ms", 83.1},
                  {"attempts", 2},
                  {"total_ms", 812.4},
                  {"left_out", 3}}));
}

TEST(AccessLine, ARefusedRequestHasItsErrorAndNothingThatWasNotDone) {
  const AccessRecord refused{.ended = absl::FromUnixMillis(1796000000123),
                             .route = "other",
                             .status = "404",
                             .error = "NOT_FOUND"};
  EXPECT_EQ(AccessLine(refused, AccessFormat::kText, 7),
            "2026-11-30T00:53:20.123Z access id=- tenant=- route=other status=404 error=NOT_FOUND "
            "total_ms=0.0 left_out=7\n");
}

TEST(AccessLine, ValuesFromOutsideForgeNeitherLinesNorFields) {
  for (const std::string& evil :
       {std::string("a\nforged b=c\x1b[31m"), std::string("\" , \"tenant\":\"root"), EveryByte(),
        std::string(100000, '\xff'), std::string(100000, ' ')}) {
    AccessRecord record = Whole();
    record.id = record.tenant = record.route = record.status = record.error = evil;
    const std::string text = AccessLine(record, AccessFormat::kText, 1);
    EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 1);
    EXPECT_EQ(std::count(text.begin(), text.end(), ' '), 13) << text;
    for (const AccessFormat format : {AccessFormat::kText, AccessFormat::kJson}) {
      const std::string line = AccessLine(record, format, 1);
      EXPECT_LT(line.size(), 2048u) << "one write to a pipe is whole";
      EXPECT_TRUE(
          std::all_of(line.begin(), line.end() - 1, [](char c) { return c >= ' ' && c < 0x7f; }));
    }
    const json object = json::parse(AccessLine(record, AccessFormat::kJson, 1), nullptr, false);
    ASSERT_TRUE(object.is_object());
    EXPECT_EQ(object.size(), 16u);
  }
}

TEST(AccessLine, AValueIsCutAt128BytesBetweenCharacters) {
  EXPECT_EQ(AccessValue(std::string(128, 'a')), std::string(128, 'a'));
  EXPECT_EQ(AccessValue(std::string(129, 'a')), std::string(125, 'a') + "...");
  for (size_t before = 0; before < 200; ++before) {
    const std::string value =
        AccessValue(std::string(before, 'a') + "\u00fc\U0001F600" + std::string(200, 'b'));
    EXPECT_LE(value.size(), kMaxAccessValueBytes);
    const json read = json::parse("\"" + value + "\"", nullptr, false);
    EXPECT_TRUE(read.is_string()) << value;
  }
}

TEST(AccessLine, AReaderOfJsonGetsTheNamesOfTenantsBack) {
  AccessRecord record = Whole();
  for (const std::string& name :
       {std::string("B\u00fcro 7"), std::string("\u4f60\u597d"), std::string("\U0001F600"),
        std::string("back\\slash \"quoted\"")}) {
    record.tenant = name;
    EXPECT_EQ(json::parse(AccessLine(record, AccessFormat::kJson, 0)).at("tenant"), name);
  }
  record.tenant = "cut \xf0\x9f";
  EXPECT_EQ(json::parse(AccessLine(record, AccessFormat::kJson, 0)).at("tenant"), "cut \uFFFD");
}

}  // namespace
}  // namespace baton
