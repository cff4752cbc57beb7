#include "bench/serve/load_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <optional>
#include <set>

namespace baton {
namespace {

using testing::HasSubstr;

LoadSource Make(const LoadClass& load, uint32_t vocab_size = 1000, uint64_t seed = 1) {
  auto source = LoadSource::Create(load, {.vocab_size = vocab_size, .seed = seed, .pages_seed = 1});
  EXPECT_TRUE(source.ok()) << source.status();
  return *std::move(source);
}

std::vector<uint32_t> Prompt(LoadSource& source) { return source.NextRequest().prompt; }

TEST(LoadSource, ArrivalsAreAPoissonProcessOfTheGivenRate) {
  LoadSource source = Make({.rate = 50});
  constexpr int kArrivals = 20000;
  double sum = 0, squares = 0;
  absl::Duration last = absl::ZeroDuration();
  for (int i = 0; i < kArrivals; ++i) {
    const absl::Duration next = *source.NextArrival();
    ASSERT_GE(next, last);
    const double gap = absl::ToDoubleSeconds(next - last);
    sum += gap;
    squares += gap * gap;
    last = next;
  }
  const double mean = sum / kArrivals;
  EXPECT_NEAR(mean, 1.0 / 50, 0.001);
  // The standard deviation of exponential gaps is equal to their mean.
  EXPECT_NEAR(std::sqrt(squares / kArrivals - mean * mean), mean, 0.05 * mean);
}

TEST(LoadSource, EqualSeedsGiveEqualLoadsAndOthersOthers) {
  const LoadClass load{.rate = 5, .input_tokens = 40};
  LoadSource a = Make(load), b = Make(load), other = Make(load, 1000, 2);
  for (int i = 0; i < 10; ++i) {
    const absl::Duration at = *a.NextArrival();
    EXPECT_EQ(at, *b.NextArrival());
    EXPECT_NE(at, *other.NextArrival());
    const std::vector<uint32_t> prompt = Prompt(a);
    EXPECT_EQ(prompt, Prompt(b));
    EXPECT_NE(prompt, Prompt(other));
  }
}

TEST(LoadSource, RequestsHaveTheirLengthsAndStayInTheVocabulary) {
  LoadSource source = Make({.concurrency = 1, .input_tokens = 300, .output_tokens = 7}, 29);
  std::set<uint32_t> seen;
  const LoadRequest request = source.NextRequest();
  ASSERT_EQ(request.prompt.size(), 300u);
  for (const uint32_t id : request.prompt) seen.insert(id);
  EXPECT_LT(*seen.rbegin(), 29u);
  EXPECT_GT(seen.size(), 20u);
  EXPECT_EQ(request.output_tokens, 7u);
}

TEST(LoadSource, ATraceGivesLengthsAndSharedPrefixes) {
  const std::string path = testing::TempDir() + "/baton_load_source_trace";
  std::ofstream(path) << "# a comment\n20,3,7 8\n17,4,7 9\n5,1,\n";
  LoadSource source = Make({.rate = 1, .trace = path});
  const std::vector<uint32_t> first = Prompt(source), second = Prompt(source);
  EXPECT_EQ(source.NextRequest().output_tokens, 1u);
  ASSERT_EQ(first.size(), 20u);
  ASSERT_EQ(second.size(), 17u);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 8, second.begin())) << "page 7";
  EXPECT_FALSE(std::equal(first.begin() + 8, first.begin() + 16, second.begin() + 8));
  const std::vector<uint32_t> again = Prompt(source);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 16, again.begin()));
  EXPECT_NE(first, again) << "what is beyond the pages is its own";
}

TEST(LoadSource, WithoutARateATraceGivesTheTimesAndThenEnds) {
  const std::string path = testing::TempDir() + "/baton_load_source_times";
  std::ofstream(path) << "{\"timestamp\": 500, \"input_length\": 600, \"output_length\": 2, "
                         "\"hash_ids\": [1, 2]}\n"
                         "{\"timestamp\": 510, \"input_length\": 700, \"output_length\": 2, "
                         "\"hash_ids\": [1, 3]}\n";
  LoadSource source = Make({.trace = path}), other = Make({.trace = path}, 1000, 9);
  EXPECT_EQ(source.NextArrival(), absl::ZeroDuration());
  EXPECT_EQ(source.NextArrival(), absl::Milliseconds(10));
  EXPECT_EQ(source.NextArrival(), std::nullopt);
  const std::vector<uint32_t> first = Prompt(source), second = Prompt(source);
  ASSERT_EQ(first.size(), 600u);
  ASSERT_EQ(second.size(), 700u);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 512, second.begin())) << "hash id 1";
  EXPECT_FALSE(std::equal(first.begin() + 512, first.end(), second.begin() + 512));
  EXPECT_EQ(first, Prompt(other)) << "ids stand for the same tokens in all classes of a run";
}

TEST(LoadSource, ErrorsNameTheClassTheFieldOrTheLine) {
  const auto parsed = ParseLoadClass("long:rate=0.5,input=2000,output=2");
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  EXPECT_EQ(parsed->name, "long");
  EXPECT_EQ(parsed->rate, 0.5);
  EXPECT_EQ(parsed->input_tokens, 2000);
  EXPECT_EQ(parsed->output_tokens, 2);
  EXPECT_THAT(ParseLoadClass("a:rate=x").status().ToString(), HasSubstr("rate=x"));
  EXPECT_THAT(ParseLoadClass("a:colour=1").status().ToString(), HasSubstr("'colour'"));
  EXPECT_THAT(
      LoadSource::Create({.name = "both", .rate = 1, .concurrency = 1}, {}).status().ToString(),
      HasSubstr("class 'both'"));
  EXPECT_THAT(LoadSource::Create({.name = "none"}, {}).status().ToString(),
              HasSubstr("class 'none'"));
  const std::string path = testing::TempDir() + "/baton_load_source_bad";
  std::ofstream(path) << "20,3,7\n20,x,7\n";
  EXPECT_THAT(LoadSource::Create({.rate = 1, .trace = path}, {}).status().ToString(),
              HasSubstr(":2:"));
  std::ofstream(path) << "20,3,7\n";
  EXPECT_THAT(LoadSource::Create({.trace = path}, {}).status().ToString(),
              HasSubstr("has no times"));
}

}  // namespace
}  // namespace baton
