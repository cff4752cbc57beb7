#include "common/base/kv_type.h"

#include <set>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/kv_type_name.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

TEST(KvType, EveryTypeIsFoundByItsName) {
  std::set<std::string> names;
  for (const KvType type : kAllKvTypes) {
    EXPECT_TRUE(names.insert(KvTypeName(type)).second)
        << "two types are called " << KvTypeName(type);
    const auto found = KvTypeFromName(KvTypeName(type));
    ASSERT_TRUE(found.ok()) << found.status();
    EXPECT_EQ(*found, type);
  }
}

TEST(KvType, AnUnknownNameIsToldTheNamesThereAre) {
  for (const std::string name : {"", "F16", "fp16", "f16 ", "auto"}) {
    const auto found = KvTypeFromName(name);
    ASSERT_FALSE(found.ok()) << name;
    EXPECT_THAT(std::string(found.status().message()),
                HasSubstr("f32, f16, bf16, int8, fp8, int4"));
  }
}

TEST(KvType, ATokenTakesItsScalesToo) {
  EXPECT_EQ(KvTokenBytes(KvType::kF32, 2, 3, 64), 2 * 2 * 3 * 64 * 4u);
  EXPECT_EQ(KvTokenBytes(KvType::kF16, 2, 3, 64), 2 * 2 * 3 * 64 * 2u);
  EXPECT_EQ(KvTokenBytes(KvType::kInt8, 2, 3, 64), 2 * 2 * 3 * (64 + 4u));
  EXPECT_EQ(KvTokenBytes(KvType::kFp8, 2, 3, 64), 2 * 2 * 3 * (64 + 4u));
  EXPECT_EQ(KvTokenBytes(KvType::kInt4, 2, 3, 64), 2 * 2 * 3 * 2 * 18u) << "two groups of 32";
}

TEST(KvType, OnlyInt4WantsHeadsOfWholeGroups) {
  for (const KvType type : kAllKvTypes) {
    EXPECT_TRUE(TakesHeadDim(type, 64));
    EXPECT_TRUE(TakesHeadDim(type, 96));
    EXPECT_EQ(TakesHeadDim(type, 80), type != KvType::kInt4);
  }
}

}  // namespace
}  // namespace baton
