#include "bench/serve/load_source.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <set>

namespace baton {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

LoadSource Make(const LoadClass& load, uint32_t vocab_size = 1000, uint64_t seed = 1) {
  auto source = LoadSource::Create(load, vocab_size, seed);
  EXPECT_TRUE(source.ok()) << source.status();
  return *std::move(source);
}

std::vector<uint32_t> Prompt(LoadSource& source) {
  const v1::GenerateRequest request = source.NextRequest();
  return {request.prompt_token_ids().ids().begin(), request.prompt_token_ids().ids().end()};
}

TEST(LoadSource, ArrivalsAreAPoissonProcessOfTheGivenRate) {
  LoadSource source = Make({.rate = 50});
  constexpr int kArrivals = 20000;
  double sum = 0, squares = 0;
  absl::Duration last = absl::ZeroDuration();
  for (int i = 0; i < kArrivals; ++i) {
    const absl::Duration next = source.NextArrival();
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
    const absl::Duration at = a.NextArrival();
    EXPECT_EQ(at, b.NextArrival());
    EXPECT_NE(at, other.NextArrival());
    const std::vector<uint32_t> prompt = Prompt(a);
    EXPECT_EQ(prompt, Prompt(b));
    EXPECT_NE(prompt, Prompt(other));
  }
}

TEST(LoadSource, RequestsHaveTheirLengthsAndStayInTheVocabulary) {
  LoadSource source = Make({.concurrency = 1, .input_tokens = 300, .output_tokens = 7}, 29);
  std::set<uint32_t> seen;
  const v1::GenerateRequest request = source.NextRequest();
  ASSERT_EQ(request.prompt_token_ids().ids_size(), 300);
  for (const uint32_t id : request.prompt_token_ids().ids()) seen.insert(id);
  EXPECT_LT(*seen.rbegin(), 29u);
  EXPECT_GT(seen.size(), 20u);
  EXPECT_EQ(request.sampling_params().max_tokens(), 7u);
  EXPECT_TRUE(request.sampling_params().ignore_eos());
}

TEST(LoadSource, ATraceGivesLengthsAndSharedPrefixes) {
  const std::string path = testing::TempDir() + "/baton_load_source_trace";
  std::ofstream(path) << "# a comment\n20,3,7 8\n17,4,7 9\n5,1,\n";
  LoadSource source = Make({.rate = 1, .trace = path});
  const std::vector<uint32_t> first = Prompt(source), second = Prompt(source);
  EXPECT_EQ(source.NextRequest().sampling_params().max_tokens(), 1u);
  ASSERT_EQ(first.size(), 20u);
  ASSERT_EQ(second.size(), 17u);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 8, second.begin())) << "page 7";
  EXPECT_FALSE(std::equal(first.begin() + 8, first.begin() + 16, second.begin() + 8));
  const std::vector<uint32_t> again = Prompt(source);
  EXPECT_TRUE(std::equal(first.begin(), first.begin() + 16, again.begin()));
  EXPECT_NE(first, again) << "what is beyond the pages is its own";
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
      LoadSource::Create({.name = "both", .rate = 1, .concurrency = 1}, 9, 1).status().ToString(),
      HasSubstr("class 'both'"));
  const std::string path = testing::TempDir() + "/baton_load_source_bad";
  std::ofstream(path) << "20,3,7\n20,x,7\n";
  EXPECT_THAT(LoadSource::Create({.rate = 1, .trace = path}, 9, 1).status().ToString(),
              HasSubstr(":2:"));
}

}  // namespace
}  // namespace baton
