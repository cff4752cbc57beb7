#include "common/handoff/kv_wire_choice.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/kv_type_name.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

internal::v1::KvShape Shape(const std::string& dtype, const std::string& wanted = "auto",
                            bool strict = false) {
  internal::v1::KvShape shape;
  shape.set_dtype(dtype);
  shape.set_numerics("cpu/" + dtype);
  SetWireTypes(wanted, strict, shape);
  return shape;
}

TEST(KvWireChoice, AReceiverTakesEveryFloatTypeAndInt8OnlyWhereItAsksForIt) {
  EXPECT_THAT(Shape("f16").wire_dtypes(), ElementsAre("f16", "f32", "bf16"));
  EXPECT_THAT(Shape("bf16", "int8").wire_dtypes(), ElementsAre("int8", "bf16", "f32", "f16"));
  EXPECT_THAT(Shape("f32", "f32", true).wire_dtypes(), ElementsAre("f32"));
  EXPECT_THAT(Shape("bf16", "auto", true).wire_dtypes(), ElementsAre("bf16"));
}

TEST(KvWireChoice, TheSenderSendsItsOwnTypeUnlessToldOtherwise) {
  for (const char* ours : {"f16", "bf16", "f32"}) {
    for (const char* theirs : {"f16", "bf16", "f32"}) {
      const auto wire = ChooseWireType(Shape(ours), "auto", false, Shape(theirs));
      ASSERT_TRUE(wire.ok()) << wire.status();
      EXPECT_STREQ(KvTypeName(*wire), ours);
    }
  }
  const auto wire = ChooseWireType(Shape("f32"), "bf16", false, Shape("f16"));
  ASSERT_TRUE(wire.ok()) << wire.status();
  EXPECT_EQ(*wire, KvType::kBf16);
}

TEST(KvWireChoice, Int8NeedsBothAndARefusalNamesBoth) {
  EXPECT_TRUE(ChooseWireType(Shape("f16", "int8"), "int8", false, Shape("f16", "int8")).ok());
  const absl::Status refused =
      ChooseWireType(Shape("f16", "int8"), "int8", false, Shape("f16")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("sends KV as int8"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("accepts only f16, f32, bf16"));
  EXPECT_FALSE(ChooseWireType(Shape("f32"), "auto", false, Shape("f16", "auto", true)).ok());
}

// The precision was lost when the sender stored its KV, not on the wire.
TEST(KvWireChoice, AQuantisedCachesOwnTypeIsTakenByWhoConverts) {
  for (const char* ours : {"int8", "fp8"}) {
    for (const KvType type : kAllKvTypes) {
      const char* const theirs = KvTypeName(type);
      const auto wire = ChooseWireType(Shape(ours), "auto", false, Shape(theirs));
      ASSERT_TRUE(wire.ok()) << wire.status();
      EXPECT_STREQ(KvTypeName(*wire), ours);
      EXPECT_EQ(TakesWireType(Shape(ours), *wire, Shape(theirs, "auto", true)),
                std::string(ours) == theirs);
    }
  }
  // A quantised type that is not the sender's own needs the receiver's consent.
  EXPECT_FALSE(ChooseWireType(Shape("int8", "fp8"), "fp8", false, Shape("f16")).ok());
  EXPECT_TRUE(ChooseWireType(Shape("int8", "fp8"), "fp8", false, Shape("f16", "fp8")).ok());
  EXPECT_FALSE(TakesWireType(Shape("f16"), KvType::kInt8, Shape("f16")));
}

TEST(KvWireChoice, AStrictSenderRefusesAnotherKvTypeAndNamesBoth) {
  EXPECT_TRUE(ChooseWireType(Shape("f16"), "auto", true, Shape("f16")).ok());
  const absl::Status refused = ChooseWireType(Shape("f32"), "auto", true, Shape("bf16")).status();
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("is f32"));
  EXPECT_THAT(std::string(refused.message()), HasSubstr("worker's bf16"));
}

TEST(KvWireChoice, WhatIsStoredHasTheReceiversNumericsOnlyWhereNoBitCanDiffer) {
  for (const KvType type : kAllKvTypes) {
    const char* const dtype = KvTypeName(type);
    for (const KvType wire : kAllKvTypes) {
      // float32 represents the values of a quantised cache, but not the scales they were made with.
      const bool exact = wire == type || (wire == KvType::kF32 && !IsQuantised(type));
      const std::string stored = StoredNumerics(Shape(dtype), wire, Shape(dtype));
      EXPECT_EQ(stored == Shape(dtype).numerics(), exact) << dtype << " " << stored;
      EXPECT_THAT(stored, exact ? HasSubstr("cpu") : HasSubstr(KvTypeName(wire)));
    }
  }
  EXPECT_EQ(StoredNumerics(Shape("f32"), KvType::kF32, Shape("f16")),
            "cpu/f32 over f32 into cpu/f16");
  // Two KV types differ even if the numerics do not name the type.
  internal::v1::KvShape f32 = Shape("f32");
  internal::v1::KvShape f16 = Shape("f16");
  f32.set_numerics("cpu");
  f16.set_numerics("cpu");
  EXPECT_NE(StoredNumerics(f32, KvType::kF32, f16), "cpu");
}

}  // namespace
}  // namespace baton
