#include "common/protocol/sampling_defaults.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/protocol/validate_request.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

constexpr uint32_t kFloatType = 6;

absl::StatusOr<v1::SamplingParams> DefaultsOf(const GgufBuilder& builder,
                                              const SamplingDefaults& defaults = {}) {
  const auto file = GgufFile::Parse(builder.Build(), "model.gguf", GgufFile::Part::kTokenizer);
  if (!file.ok()) return file.status();
  return DefaultSampling(*file, defaults);
}

TEST(DefaultSampling, WithoutAWordFromTheModelItIsTemperature07AndTopP095) {
  const auto params = DefaultsOf(GgufBuilder());
  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_EQ(params->temperature(), 0.7F);
  EXPECT_EQ(params->top_p(), 0.95F);
  EXPECT_FALSE(params->has_top_k());
}

TEST(DefaultSampling, EachFieldOfTheModelHoldsByItself) {
  const GgufBuilder warm = GgufBuilder().Scalar("general.sampling.temp", kFloatType, 1.5F);
  const GgufBuilder narrow = GgufBuilder().Scalar("general.sampling.top_p", kFloatType, 0.5F);
  const GgufBuilder greedy = GgufBuilder().Scalar("general.sampling.temp", kFloatType, 0.0F);
  auto params = DefaultsOf(warm);
  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_EQ(params->temperature(), 1.5F);
  EXPECT_EQ(params->top_p(), 0.95F);
  params = DefaultsOf(narrow);
  EXPECT_EQ(params->temperature(), 0.7F);
  EXPECT_EQ(params->top_p(), 0.5F);
  params = DefaultsOf(greedy);
  EXPECT_EQ(params->temperature(), 0);
}

TEST(DefaultSampling, WithoutTheModelsOwnSamplingItIsThatOfTheFlags) {
  const GgufBuilder own = GgufBuilder()
                              .Scalar("general.sampling.temp", kFloatType, 1.5F)
                              .Scalar("general.sampling.penalty_repeat", kFloatType, 1.2F);
  auto params = DefaultsOf(own, {.generation_config = "none"});
  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_EQ(params->temperature(), 0.7F);
  EXPECT_EQ(params->top_p(), 0.95F);
  EXPECT_FALSE(params->has_repetition_penalty());
  params = DefaultsOf(own, {.generation_config = "none", .temperature = 0, .top_p = 1});
  EXPECT_EQ(params->temperature(), 0);
  EXPECT_EQ(params->top_p(), 1);
}

TEST(DefaultSampling, AModelsValueThatNoRequestMayHaveIsRefused) {
  const GgufBuilder wrong = GgufBuilder().Scalar("general.sampling.top_p", kFloatType, 1.5F);
  EXPECT_THAT(std::string(DefaultsOf(wrong).status().message()),
              HasSubstr("general.sampling.top_p"));
  EXPECT_TRUE(DefaultsOf(wrong, {.generation_config = "none"}).ok());
}

TEST(FillTemperatureAndTopP, LeavesWhatIsSet) {
  v1::SamplingParams params;
  params.set_temperature(1);
  FillTemperatureAndTopP({}, params);
  EXPECT_EQ(params.temperature(), 1);
  EXPECT_EQ(params.top_p(), 0.95F) << "each field by itself";
  FillTemperatureAndTopP({.temperature = 2, .top_p = 0.5}, params);
  EXPECT_EQ(params.temperature(), 1);
  EXPECT_EQ(params.top_p(), 0.95F);
}

class SamplingDefaultFlagsTest : public ::testing::Test {
 protected:
  // The message of the error; empty without an error.
  std::string Parse(std::vector<const char*> arguments) {
    arguments.insert(arguments.begin(), "prog");
    FlagSet flags("prog", "A test.");
    defaults_ = {};
    AddSamplingDefaultFlags(flags, defaults_);
    return std::string(flags.Parse(static_cast<int>(arguments.size()), arguments.data()).message());
  }

  SamplingDefaults defaults_;
};

TEST_F(SamplingDefaultFlagsTest, SetOtherDefaults) {
  ASSERT_EQ(Parse({"--default-temperature=0", "--default-top-p=1", "--generation-config=none"}),
            "");
  EXPECT_EQ(defaults_.temperature, 0);
  EXPECT_EQ(defaults_.top_p, 1);
  EXPECT_EQ(defaults_.generation_config, "none");
}

TEST_F(SamplingDefaultFlagsTest, TakeOnlyWhatARequestMayHave) {
  for (const char* value : {"-0.1", "nan", "inf", "1e39", "warm", ""}) {
    EXPECT_THAT(Parse({"--default-temperature", value}), HasSubstr("--default-temperature: "))
        << value;
  }
  for (const char* value : {"0", "-0.1", "1.01", "nan", "1e-60", ""}) {
    EXPECT_THAT(Parse({"--default-top-p", value}), HasSubstr("--default-top-p: ")) << value;
  }
  for (const char* value : {"0", "1e-6", "100"}) {
    ASSERT_EQ(Parse({"--default-temperature", value}), "");
    v1::SamplingParams params;
    FillTemperatureAndTopP(defaults_, params);
    EXPECT_TRUE(SamplingViolations(params, {}).empty()) << value;
  }
  for (const char* value : {"1e-6", "0.95", "1"}) {
    ASSERT_EQ(Parse({"--default-top-p", value}), "");
    v1::SamplingParams params;
    FillTemperatureAndTopP(defaults_, params);
    EXPECT_TRUE(SamplingViolations(params, {}).empty()) << value;
  }
}

}  // namespace
}  // namespace baton
