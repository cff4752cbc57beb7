#include "router/tenants/api_key.h"

#include <gtest/gtest.h>

namespace baton {
namespace {

TEST(ApiKey, ANewOneHasTheFormAndIsNeverTheSame) {
  const std::string key = MakeApiKey();
  EXPECT_TRUE(IsApiKey(key)) << key;
  EXPECT_EQ(key.size(), 49u);
  EXPECT_NE(MakeApiKey(), key);
}

TEST(ApiKey, WhatIsLongerShorterOrOfOtherLettersIsNone) {
  const std::string key = MakeApiKey();
  for (const std::string& other :
       {key + "A", key.substr(1), key.substr(0, 48), "Baton-" + key.substr(6), std::string(),
        key.substr(0, 48) + "=", key.substr(0, 48) + std::string(1, '\0')}) {
    EXPECT_FALSE(IsApiKey(other)) << other;
  }
}

TEST(ApiKey, TheIdIsTheBeginningOfTheHash) {
  EXPECT_EQ(ApiKeyId(HashApiKey("abc")), "ba7816bf8f01");  // SHA-256 of "abc", as FIPS 180 has it
}

}  // namespace
}  // namespace baton
