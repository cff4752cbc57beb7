#include "common/protocol/model_sampling.h"

#include <cmath>
#include <limits>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr uint32_t kInt32 = 5;
constexpr uint32_t kUint64 = 10;
constexpr uint32_t kFloat32 = 6;
constexpr uint32_t kFloat64 = 12;

absl::StatusOr<v1::SamplingParams> Read(const GgufBuilder& builder) {
  const auto file = GgufFile::Parse(builder.Build(), "model.gguf", GgufFile::Part::kTokenizer);
  if (!file.ok()) return file.status();
  return ReadModelSampling(*file);
}

std::string Error(const GgufBuilder& builder) {
  return std::string(Read(builder).status().message());
}

TEST(ModelSampling, EachKeyGivesItsField) {
  const auto params = Read(GgufBuilder()
                               .Scalar("general.sampling.temp", kFloat32, 0.6F)
                               .Scalar("general.sampling.top_p", kFloat64, 0.5)
                               .Scalar("general.sampling.top_k", kInt32, int32_t{20})
                               .Scalar("general.sampling.min_p", kFloat32, 0.01F)
                               .Scalar("general.sampling.penalty_repeat", kFloat32, 1.05F));
  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_EQ(params->temperature(), 0.6F);
  EXPECT_EQ(params->top_p(), 0.5F);
  EXPECT_EQ(params->top_k(), 20);
  EXPECT_EQ(params->min_p(), 0.01F);
  EXPECT_EQ(params->repetition_penalty(), 1.05F);
}

TEST(ModelSampling, WhatTheFileDoesNotSayStaysUnset) {
  const auto params = Read(GgufBuilder().Scalar("general.sampling.min_p", kFloat32, 0.0F));
  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_TRUE(params->has_min_p());
  EXPECT_EQ(params->ByteSizeLong(), 5u) << params->ShortDebugString();
}

TEST(ModelSampling, NumbersMayBeOfAnyType) {
  const auto params = Read(GgufBuilder()
                               .Scalar("general.sampling.temp", kUint64, uint64_t{1})
                               .Scalar("general.sampling.top_k", kFloat32, 40.0F));
  ASSERT_TRUE(params.ok()) << params.status();
  EXPECT_EQ(params->temperature(), 1);
  EXPECT_EQ(params->top_k(), 40);
}

TEST(ModelSampling, ATopKBelowOneIsOff) {
  for (const int32_t off : {-1, 0, -100}) {
    const auto params = Read(GgufBuilder().Scalar("general.sampling.top_k", kInt32, off));
    ASSERT_TRUE(params.ok()) << params.status();
    EXPECT_TRUE(params->has_top_k());
    EXPECT_EQ(params->top_k(), 0);
  }
}

TEST(ModelSampling, WhatNoClientMaySendIsRefusedWithFileKeyAndRemedy) {
  const float nan = std::nanf("");
  const float infinity = std::numeric_limits<float>::infinity();
  for (const auto& [key, value] :
       {std::pair("temp", -1.0F), std::pair("temp", nan), std::pair("temp", infinity),
        std::pair("top_p", 0.0F), std::pair("top_p", 1.5F), std::pair("top_p", nan),
        std::pair("min_p", -0.1F), std::pair("min_p", nan), std::pair("penalty_repeat", 0.0F),
        std::pair("penalty_repeat", nan), std::pair("top_k", 0.5F), std::pair("top_k", nan),
        std::pair("top_k", 1e10F)}) {
    const std::string name = std::string("general.sampling.") + key;
    EXPECT_THAT(
        Error(GgufBuilder().Scalar(name, kFloat32, value)),
        AllOf(StartsWith("model.gguf: " + name + " ("), HasSubstr(") must be "), HasSubstr(", is "),
              HasSubstr("; correct it, or "), HasSubstr("--generation-config=none")))
        << value;
  }
  EXPECT_THAT(Error(GgufBuilder().Text("general.sampling.temp", "hot")),
              StartsWith("model.gguf: general.sampling.temp (temperature in a folder's "
                         "generation_config.json) is not a number; "));
}

}  // namespace
}  // namespace baton
