#include "bench/serve/trace_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

std::string Write(const std::string& content) {
  const std::string path = testing::TempDir() + "/baton_trace_file";
  std::ofstream(path, std::ios::trunc) << content;
  return path;
}

Trace ReadText(const std::string& content, const TraceOptions& options = {}) {
  auto trace = ReadTrace(Write(content), options);
  EXPECT_TRUE(trace.ok()) << trace.status();
  return trace.ok() ? *std::move(trace) : Trace{};
}

std::string ErrorOf(const std::string& content, const TraceOptions& options = {}) {
  return ReadTrace(Write(content), options).status().ToString();
}

constexpr char kMooncake[] =
    R"({"timestamp": 27000, "input_length": 6758, "output_length": 500, "hash_ids": [0, 46]})"
    "\n"
    R"({"timestamp": 30000, "input_length": 9, "output_length": 3, "hash_ids": [5000000000]})"
    "\r\n\n";
constexpr char kAzure[] =
    "TIMESTAMP,ContextTokens,GeneratedTokens\r\n2023-11-16 18:15:46.6805900,374,44\r\n"
    "2023-11-16 18:15:50.9951690,396,109\r\n";

TEST(TraceFile, ReadsMooncakesLines) {
  const Trace trace = ReadText(kMooncake);
  ASSERT_EQ(trace.requests.size(), 2u);
  EXPECT_TRUE(trace.has_times);
  EXPECT_EQ(trace.page_tokens, 512);
  EXPECT_EQ(trace.requests[0].at, absl::ZeroDuration());
  EXPECT_EQ(trace.requests[0].input_tokens, 6758);
  EXPECT_EQ(trace.requests[0].output_tokens, 500);
  EXPECT_THAT(trace.requests[0].pages, ElementsAre(0, 46));
  EXPECT_EQ(trace.requests[1].at, absl::Seconds(3));
  EXPECT_THAT(trace.requests[1].pages, ElementsAre(5000000000));
}

TEST(TraceFile, AByteOrderMarkIsNoPartOfTheFirstLine) {
  for (const char* trace : {kMooncake, kAzure}) {
    EXPECT_EQ(ReadText(absl::StrCat("\xef\xbb\xbf", trace)).requests.size(), 2u);
  }
}

TEST(TraceFile, ReadsAzuresLines) {
  const Trace trace = ReadText(kAzure);
  ASSERT_EQ(trace.requests.size(), 2u);
  EXPECT_TRUE(trace.has_times);
  EXPECT_EQ(trace.requests[0].input_tokens, 374);
  EXPECT_EQ(trace.requests[1].output_tokens, 109);
  EXPECT_EQ(trace.requests[1].at, absl::Nanoseconds(4'314'579'000));
}

TEST(TraceFile, ScalesTimesLengthsAndWhatIsShared) {
  const Trace trace =
      ReadText(kMooncake, {.time_scale = 0.5, .input_scale = 0.25, .output_scale = 0.1});
  EXPECT_EQ(trace.requests[1].at, absl::Milliseconds(1500));
  EXPECT_EQ(trace.requests[0].input_tokens, 1690) << "6758 / 4, rounded";
  EXPECT_EQ(trace.requests[0].output_tokens, 50);
  EXPECT_EQ(trace.requests[1].output_tokens, 1) << "at least one";
  EXPECT_EQ(trace.page_tokens, 128);
}

TEST(TraceFile, BoundsLengthsTimesAndTheNumberOfRequests) {
  const Trace bounded = ReadText(kAzure, {.max_input_tokens = 380, .max_output_tokens = 50});
  EXPECT_EQ(bounded.requests[0].input_tokens, 374);
  EXPECT_EQ(bounded.requests[1].input_tokens, 380);
  EXPECT_EQ(bounded.requests[1].output_tokens, 50);
  EXPECT_EQ(ReadText(kAzure, {.max_requests = 1}).requests.size(), 1u);
  const Trace later = ReadText(kAzure, {.start = absl::Seconds(1)});
  ASSERT_EQ(later.requests.size(), 1u);
  EXPECT_EQ(later.requests[0].input_tokens, 396);
  EXPECT_EQ(later.requests[0].at, absl::ZeroDuration()) << "time begins with the first";
  EXPECT_THAT(ErrorOf(kAzure, {.start = absl::Seconds(5)}), HasSubstr("--trace-start"));
}

TEST(TraceFile, RequestsAreInTheOrderOfTheirTimes) {
  const Trace trace = ReadText(
      "{\"timestamp\": 9, \"input_length\": 1, \"output_length\": 1}\n"
      "{\"timestamp\": 4, \"input_length\": 2, \"output_length\": 1}\n");
  EXPECT_EQ(trace.requests[0].input_tokens, 2);
  EXPECT_EQ(trace.requests[1].at, absl::Milliseconds(5));
}

TEST(TraceFile, AMalformedLineIsNamedByItsNumber) {
  const std::string good = "{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1}\n";
  const std::pair<std::string, std::string> wrong[] = {
      {"{\"timestamp\": 0,", "JSON"},
      {"[1]", "JSON"},
      {"{\"input_length\": 1, \"output_length\": 1}", "timestamp"},
      {"{\"timestamp\": -1, \"input_length\": 1, \"output_length\": 1}", "timestamp"},
      {"{\"timestamp\": 1e300, \"input_length\": 1, \"output_length\": 1}", "timestamp"},
      {"{\"timestamp\": 0, \"input_length\": 0, \"output_length\": 1}", "input_length"},
      {"{\"timestamp\": 0, \"input_length\": 1.5, \"output_length\": 1}", "input_length"},
      {"{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 9999999}", "output_length"},
      {"{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": 3}",
       "hash_ids"},
      {"{\"timestamp\": 0, \"input_length\": 1, \"output_length\": 1, \"hash_ids\": [-3]}",
       "hash id"}};
  for (const auto& [line, what] : wrong) {
    EXPECT_THAT(ErrorOf(absl::StrCat(good, "\n", line, "\n", good)),
                AllOf(HasSubstr(":3: "), HasSubstr(what)))
        << line;
  }
  const std::string azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:15:46.5,1,1\n";
  for (const char* line : {"yesterday,1,1", "2023-11-16 18:15:46.5,0,1", "2023-11-16 18:15:46.5,1",
                           "2023-11-16 18:15:46.5,1,x"}) {
    EXPECT_THAT(ErrorOf(azure + line), HasSubstr(":3: must be 'YYYY-MM-DD")) << line;
  }
  EXPECT_THAT(ErrorOf("20,3,7\n20,x,7\n"), HasSubstr(":2: "));
  EXPECT_THAT(ErrorOf("20,3,7\n20,3,7 x\n"), HasSubstr(":2: "));
  EXPECT_THAT(ErrorOf("# nothing\n"), HasSubstr("has no requests"));
  EXPECT_THAT(ReadTrace("/no/such/trace", {}).status().ToString(), HasSubstr("/no/such/trace"));
}

}  // namespace
}  // namespace baton
