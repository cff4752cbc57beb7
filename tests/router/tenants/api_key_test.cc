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

TEST(ApiKey, OneHas16To256VisibleCharacters) {
  const std::string key = "sk-~!#$%&'()*+,0";  // 16 characters
  EXPECT_TRUE(IsApiKey(key));
  EXPECT_TRUE(IsApiKey(std::string(256, 'x')));
  for (const std::string& other :
       {std::string(), key.substr(1), std::string(257, 'x'), key + " x", key + "\n",
        key + std::string(1, '\0'), key + "\x7f", key + "\u00e9"}) {
    EXPECT_FALSE(IsApiKey(other)) << other;
  }
}

TEST(ApiKey, AStrongOneIsLongAndHasManyDifferentCharacters) {
  const std::string different = "0123456789ab";
  EXPECT_TRUE(IsStrongApiKey(MakeApiKey()));
  EXPECT_TRUE(IsStrongApiKey(different + std::string(20, 'a'))) << "32 characters";
  EXPECT_FALSE(IsStrongApiKey(different + std::string(19, 'a'))) << "31 characters";
  EXPECT_FALSE(IsStrongApiKey(different.substr(0, 11) + std::string(21, '0'))) << "11 different";
  EXPECT_FALSE(IsStrongApiKey(different + std::string(20, ' ')));
}

TEST(ApiKey, TheIdIsTheBeginningOfTheHash) {
  EXPECT_EQ(ApiKeyId(HashApiKey("abc")), "ba7816bf8f01");  // SHA-256 of "abc", as FIPS 180 has it
}

}  // namespace
}  // namespace baton
