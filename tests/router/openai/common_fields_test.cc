#include "router/openai/common_fields.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "common/rpc/status.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using Json = nlohmann::ordered_json;

v1::SamplingParams Sampling(const std::string& body) {
  const Json json = Json::parse(body);
  JsonFields fields(json);
  v1::SamplingParams params;
  ReadSamplingFields(fields, params);
  EXPECT_TRUE(fields.status().ok()) << fields.status();
  return params;
}
std::string BlamedOf(const absl::Status& status) {
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  const auto violations = FieldViolations(status);
  return violations.empty() ? "" : violations.front().field;
}
std::string WrongSampling(const std::string& body) {
  const Json json = Json::parse(body);
  JsonFields fields(json);
  v1::SamplingParams params;
  ReadSamplingFields(fields, params);
  return BlamedOf(fields.status());
}

TEST(SamplingFields, ASeedIsAnySixtyFourBits) {
  EXPECT_EQ(Sampling(R"({"seed": 5})").seed(), 5u);
  EXPECT_EQ(Sampling(R"({"seed": -1})").seed(), std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(Sampling(R"({"seed": 18446744073709551615})").seed(),
            std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(Sampling(R"({"seed": -9223372036854775808})").seed(), uint64_t{1} << 63);
  EXPECT_EQ(Sampling(R"({"seed": 7.0})").seed(), 7u);
  EXPECT_EQ(WrongSampling(R"({"seed": 7.5})"), "seed");
  EXPECT_EQ(WrongSampling(R"({"seed": 1e300})"), "seed");
  EXPECT_EQ(WrongSampling(R"({"seed": "7"})"), "seed");
  EXPECT_EQ(WrongSampling(R"({"seed": 18446744073709551616})"), "seed");
  const Json json = Json::parse(R"({"seed": 7.5})");
  JsonFields fields(json);
  v1::SamplingParams params;
  ReadSamplingFields(fields, params);
  EXPECT_NE(fields.status().message().find("must be a whole number of 64 bits, is 7.5"),
            absl::string_view::npos)
      << fields.status();
}

TEST(SamplingFields, StopIsAStringOrAFew) {
  EXPECT_THAT(Sampling(R"({"stop": "a"})").stop(), ElementsAre("a"));
  EXPECT_THAT(Sampling(R"({"stop": ["a", "b"]})").stop(), ElementsAre("a", "b"));
  EXPECT_TRUE(Sampling(R"({"stop": []})").stop().empty());
  EXPECT_EQ(WrongSampling(R"({"stop": ["a", 1]})"), "stop");
  EXPECT_EQ(WrongSampling(R"({"stop": ["1","2","3","4","5","6","7","8","9","10","11","12","13",
                                       "14","15","16","17"]})"),
            "stop");
}

TEST(SamplingFields, BiasesAreNamedByTokenIds) {
  const v1::SamplingParams params = Sampling(R"({"logit_bias": {"3": -100, "4": 0.5, "5": null}})");
  EXPECT_EQ(params.logit_bias().size(), 2u);
  EXPECT_EQ(params.logit_bias().at(3), -100);
  EXPECT_EQ(params.logit_bias().at(4), 0.5);
  for (const char* key : {"a", "", "-1", " 1", "1.5", "1099511627776", "+1"}) {
    EXPECT_EQ(WrongSampling(std::string(R"({"logit_bias": {")") + key + R"(": 1}})"), "logit_bias")
        << key;
  }
  EXPECT_EQ(WrongSampling(R"({"logit_bias": {"1": "x"}})"), "logit_bias");
}

TEST(SamplingFields, NumbersOutOfAnyRangeAreNamed) {
  EXPECT_EQ(WrongSampling(R"({"n": 0})"), "n");
  EXPECT_EQ(WrongSampling(R"({"n": 17})"), "n");
  EXPECT_EQ(WrongSampling(R"({"top_k": 1.5})"), "top_k");
  EXPECT_EQ(WrongSampling(R"({"temperature": 1e300})"), "temperature");
  EXPECT_EQ(WrongSampling(R"({"min_tokens": -1})"), "min_tokens");
  EXPECT_EQ(WrongSampling(R"({"stop_token_ids": [4294967296]})"), "stop_token_ids");
}

TEST(StreamFields, OptionsAreForStreams) {
  const auto read = [](const char* body) {
    const Json json = Json::parse(body);
    JsonFields fields(json);
    const StreamFields stream = ReadStreamFields(fields);
    return std::pair(stream, fields.status());
  };
  EXPECT_FALSE(read("{}").first.stream);
  const auto all = read(R"({"stream": true, "stream_options": {"include_usage": true,
                            "continuous_usage_stats": true, "include_obfuscation": false}})");
  EXPECT_TRUE(all.first.stream && all.first.include_usage && all.first.continuous_usage);
  EXPECT_EQ(BlamedOf(read(R"({"stream_options": {}})").second), "stream_options");
  EXPECT_EQ(BlamedOf(read(R"({"stream": true, "stream_options": {"include_usage": 1}})").second),
            "stream_options.include_usage");
}

}  // namespace
}  // namespace baton
