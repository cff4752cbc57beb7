#include "router/responses/shared_text.h"

#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

TEST(GrowingText, IsAllThatWasAppended) {
  GrowingText text;
  EXPECT_TRUE(text.empty());
  std::string expected;
  for (const size_t size : {0, 3, 500, 70000, 1, 200000, 2}) {
    const std::string part(size, static_cast<char>('a' + size % 26));
    text.Append(part);
    expected += part;
    EXPECT_EQ(text.empty(), expected.empty());
    EXPECT_EQ(text.Get(), expected);
  }
}

TEST(GrowingText, CopiesKeepWhatTheyWereWhileItGoesOn) {
  GrowingText text;
  text.Append(std::string(1000, 'a'));
  const absl::Cord before = text.Get();
  text.Append("b");
  EXPECT_EQ(before, std::string(1000, 'a'));
  EXPECT_EQ(text.Get(), std::string(1000, 'a') + "b");
}

TEST(SharedObject, IsTheJsonOfItsFieldsInTheirOrder) {
  EXPECT_EQ(SharedObject().Text(), "{}");
  const Json json = {{"a", 1}, {"b", {{"c", "\u00e9\"\n"}}}, {"d", nullptr}};
  SharedObject object(json);
  EXPECT_EQ(object.Text(), json.dump());
  object.Set("e", absl::Cord("[2]"));
  object.Set("a", "x");
  EXPECT_EQ(object.Text(), R"({"a":"x","b":)" + json.at("b").dump() + R"(,"d":null,"e":[2]})");
}

TEST(EscapedText, IsAStringOfJsonBetweenItsQuotes) {
  for (const std::string& text : {std::string(), std::string("a\"\\\n\x01\u65e5")}) {
    EXPECT_EQ(Json::parse("\"" + EscapedText(text) + "\""), text);
  }
  EXPECT_EQ(Enclosed("[", absl::Cord("1,2"), "]"), "[1,2]");
}

}  // namespace
}  // namespace baton
