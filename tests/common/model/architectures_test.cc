#include "common/model/architectures.h"

#include <algorithm>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(Architectures, AreFoundByTheirNamesAlone) {
  ASSERT_NE(FindArchitecture("qwen3"), nullptr);
  EXPECT_EQ(FindArchitecture("qwen3")->qk_norm, QkNorm::kHead);
  EXPECT_EQ(FindArchitecture("qwen"), nullptr);
  EXPECT_EQ(FindArchitecture(""), nullptr);
  EXPECT_THAT(SupportedArchitectures(), testing::StartsWith("llama, qwen2, qwen3, "));
  EXPECT_THAT(SupportedArchitectures(), testing::EndsWith(" and gpt-oss"));
}

// A key that no list names would be ignored in the files of all other architectures.
TEST(Architectures, HaveOnlyKeysThatAreRefusedInOthers) {
  const auto all = OptionalKeys();
  for (const char* name : {"llama", "qwen2", "qwen3", "qwen3moe", "gemma3", "mistral3", "smollm3",
                           "granite", "granitemoe", "phi3", "olmo2", "gpt-oss"}) {
    const Architecture* architecture = FindArchitecture(name);
    ASSERT_NE(architecture, nullptr) << name;
    EXPECT_THAT(SupportedArchitectures(), testing::HasSubstr(name));
    for (const std::string key : architecture->keys) {
      EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const char* one) { return key == one; }))
          << name << ", " << key;
      EXPECT_TRUE(MayHave(*architecture, key));
    }
    EXPECT_FALSE(MayHave(*architecture, "attn_logit_softcapping"));
  }
}

}  // namespace
}  // namespace baton
