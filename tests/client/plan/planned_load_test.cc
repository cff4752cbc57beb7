#include "client/plan/planned_load.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace baton {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

std::string TraceFile() {
  const std::string path = testing::TempDir() + "/baton_planned_load_trace";
  std::ofstream(path)
      << R"({"timestamp": 500, "input_length": 1100, "output_length": 2, "hash_ids": [1, 2, 3]})"
         "\n"
         R"({"timestamp": 510, "input_length": 1100, "output_length": 4, "hash_ids": [1, 9, 3]})"
         "\n";
  return path;
}

TEST(PlannedLoad, OfATraceHasItsTimesLengthsAndWholePages) {
  const auto load = MakePlannedLoad({.trace = TraceFile()}, {}, absl::Seconds(1));
  ASSERT_TRUE(load.ok()) << load.status();
  ASSERT_EQ(load->requests.size(), 2u);
  EXPECT_EQ(load->page_tokens, 512);
  EXPECT_EQ(load->requests[1].at_ns, 10'000'000);
  EXPECT_EQ(load->requests[1].input_tokens, 1100);
  EXPECT_EQ(load->requests[1].output_tokens, 4);
  const std::vector<uint64_t>&a = load->requests[0].pages, &b = load->requests[1].pages;
  ASSERT_EQ(a.size(), 2u) << "of the third id there are 76 tokens only";
  ASSERT_EQ(b.size(), 2u);
  EXPECT_EQ(a[0], b[0]);
  EXPECT_NE(a[1], b[1]);
}

TEST(PlannedLoad, NamesAPageByAllThatIsBeforeIt) {
  const auto load =
      MakePlannedLoad({.trace = TraceFile()}, {.trace = {.input_scale = 2}}, absl::Seconds(1));
  ASSERT_TRUE(load.ok()) << load.status();
  EXPECT_EQ(load->page_tokens, 1024);
  EXPECT_EQ(load->requests[0].pages.size(), 2u);
  const auto ids =
      MakePlannedLoad({.trace = TraceFile()}, {.trace = {.input_scale = 1.5}}, absl::Seconds(1));
  ASSERT_EQ(ids->requests[0].pages.size(), 2u);
  EXPECT_EQ(ids->requests[0].pages[1], load->requests[0].pages[1]) << "whatever a page's length";
}

TEST(PlannedLoad, OfARateIsWhatTheLoadGeneratorSends) {
  const LoadClass rate{.rate = 50, .input_tokens = 7, .output_tokens = 3};
  const auto load = MakePlannedLoad(rate, {.seed = 5}, absl::Seconds(20));
  ASSERT_TRUE(load.ok()) << load.status();
  EXPECT_NEAR(static_cast<double>(load->requests.size()), 1000, 100);
  auto source = LoadSource::Create(rate, {.seed = 5});
  for (const PlannedRequest& request : load->requests) {
    ASSERT_EQ(request.at_ns, absl::ToInt64Nanoseconds(*source->NextArrival()));
    ASSERT_THAT(request.pages, IsEmpty());
  }
  EXPECT_GE(*source->NextArrival(), absl::Seconds(20));
}

TEST(PlannedLoad, ErrorsNameTheFlagOrTheFile) {
  const auto error = [](const LoadClass& load, absl::Duration duration) {
    return MakePlannedLoad(load, {}, duration).status().ToString();
  };
  EXPECT_THAT(error({.rate = 1}, absl::Nanoseconds(1)), HasSubstr("--duration"));
  EXPECT_THAT(error({.rate = 1e6}, absl::Hours(1)), HasSubstr("more than 2000000"));
  EXPECT_THAT(error({.trace = "/nowhere"}, absl::Hours(1)), HasSubstr("/nowhere"));
}

}  // namespace
}  // namespace baton
