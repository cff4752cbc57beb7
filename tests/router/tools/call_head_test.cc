#include "router/tools/call_head.h"

#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(CallHead, FindsTheArgumentsBehindTheNameOfAnObject) {
  const std::string text = R"( {"type": "function", "name": "f", "parameters": {"n": 1}})";
  const CallHead head = ReadObjectHead(text);
  EXPECT_EQ(head.fit, Fit::kYes);
  EXPECT_FALSE(head.is_whole);
  EXPECT_EQ(head.name, "f");
  EXPECT_EQ(text.substr(head.begin), R"({"n": 1}})");
}

TEST(CallHead, HasToBeReadWholeWhereTheArgumentsAreNoObjectBehindTheName) {
  for (const char* text : {R"( {"arguments": {"n": 1}, "name": "f"})", R"( {"name": "f"})",
                           R"( {"name": "f", "arguments": "{}"})", R"( {"function": {)"}) {
    const CallHead head = ReadObjectHead(text);
    EXPECT_EQ(head.fit, Fit::kYes) << text;
    EXPECT_TRUE(head.is_whole) << text;
    EXPECT_EQ(head.begin, 1u) << text;
  }
}

TEST(CallHead, FindsTheArgumentsBehindANameInTheText) {
  for (const std::string text : {"f[ARGS]{\"n\":1}", " f[CALL_ID]x7[ARGS] {\"n\":1}"}) {
    const CallHead head = ReadNamedHead(text);
    EXPECT_EQ(head.fit, Fit::kYes) << text;
    EXPECT_EQ(head.name, "f") << text;
    EXPECT_EQ(text.substr(head.begin), "{\"n\":1}") << text;
  }
  for (const char* text : {"f(", "[ARGS]{", "f[ARGS][", "f[CALL_ID][ARGS]{"}) {
    EXPECT_EQ(ReadNamedHead(text).fit, Fit::kNo) << text;
  }
}

TEST(CallHead, SaysOfEveryLongerTextWhatItHasSaidOnce) {
  for (const std::string text :
       {R"( {"id": "x", "name": "f", "arguments": {})", R"({"name": "f" } and more)",
        R"({"name": "two words", "arguments": {})", R"({"temperature": 3})"}) {
    const CallHead whole = ReadObjectHead(text);
    ASSERT_NE(whole.fit, Fit::kMore) << text;
    bool certain = false;
    for (size_t size = 0; size <= text.size(); ++size) {
      const CallHead head = ReadObjectHead(text.substr(0, size));
      EXPECT_FALSE(certain && head.fit == Fit::kMore) << text.substr(0, size);
      certain = head.fit != Fit::kMore;
      if (!certain) continue;
      EXPECT_EQ(head.fit, whole.fit) << text.substr(0, size);
      EXPECT_EQ(head.is_whole, whole.is_whole) << text.substr(0, size);
      EXPECT_EQ(head.name, whole.name) << text.substr(0, size);
    }
  }
}

TEST(CallHead, TheRestOfACallIsStringsAndABracket) {
  const std::string text = R"( , "id": "x" } tail)";
  size_t end = 0;
  EXPECT_EQ(ReadObjectRest(text, end), Fit::kYes);
  EXPECT_EQ(text.substr(end), " tail");
  EXPECT_EQ(ReadObjectRest(R"(, "id": )", end), Fit::kMore);
  EXPECT_EQ(ReadObjectRest(R"(, "id": 3})", end), Fit::kNo);
}

TEST(CallHead, TokensMayHaveSpacesBeforeEach) {
  size_t end = 0;
  EXPECT_EQ(ReadTokens(" ]\n} tail", {"]", "}"}, end), Fit::kYes);
  EXPECT_EQ(end, 4u);
  EXPECT_EQ(ReadTokens("] ", {"]", "}"}, end), Fit::kMore);
  EXPECT_EQ(ReadTokens("]]", {"]", "}"}, end), Fit::kNo);
}

TEST(CallHead, AWholeCallHasItsArgumentsAsTheyStandThere) {
  const std::string arguments = R"({"b": 1.0,  "arguments": "}\"", "a": {}})";
  for (const std::string& call :
       {R"({"arguments": )" + arguments + R"(, "name": "f"})",
        R"({"type": "function", "function": {"name": "f", "parameters": )" + arguments + "}}"}) {
    const std::optional<WholeCall> whole = ReadWholeCall(call);
    ASSERT_TRUE(whole.has_value()) << call;
    EXPECT_EQ(whole->name, "f");
    EXPECT_EQ(whole->arguments, arguments);
  }
  EXPECT_EQ(ReadWholeCall(R"({"name": "f", "arguments": "{\"n\": 1}"})")->arguments, R"({"n": 1})");
  EXPECT_EQ(ReadWholeCall(R"({"name": "f", "arguments": null})")->arguments, "{}");
}

TEST(CallHead, OtherObjectsAreNoCalls) {
  for (const char* text :
       {"[]", "{", R"({"arguments": {}})", R"({"name": "two words"})", R"({"name": 3})",
        R"({"name": "f", "arguments": [1]})", R"({"name": "f", "arguments": "[1]"})"}) {
    EXPECT_FALSE(ReadWholeCall(text).has_value()) << text;
  }
}

}  // namespace
}  // namespace baton
