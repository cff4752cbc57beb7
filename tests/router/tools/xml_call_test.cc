#include "router/tools/xml_call.h"

#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

TEST(XmlCallScanner, FindsTheEndOfACallThatGrows) {
  const std::string call =
      "<function=f>\n<parameter=s>a < b</function></param</parameter>\n<parameter=n>1</parameter>"
      "</function>";
  const std::string text = call + "</tool_call>";
  XmlCallScanner scanner;
  for (size_t size = std::string(kXmlCallBegin).size(); size < call.size(); ++size) {
    ASSERT_EQ(scanner.Scan(text.substr(0, size)), Fit::kMore) << text.substr(0, size);
  }
  EXPECT_EQ(scanner.Scan(text), Fit::kYes);
  EXPECT_EQ(scanner.end(), call.size());
}

TEST(XmlCallScanner, RefusesOtherElements) {
  for (const char* text : {"<function=f><b", "<function=f></tool_call>", "<function=f><parameterx",
                           "<function=f><parameter=s>1</parameter><function="}) {
    XmlCallScanner scanner;
    EXPECT_EQ(scanner.Scan(text), Fit::kNo) << text;
  }
}

TEST(XmlCall, AValueIsAStringWhereItsSchemaSaysSoOrElseJsonIfItIsAny) {
  const Json parameters = Json::parse(
      R"({"type": "object", "properties": {"s": {"type": "string"}, "n": {"type": "integer"}}})");
  const auto value = [&](const std::string& key, const std::string& text) {
    const std::string call =
        "<function=f><parameter=" + key + ">" + text + "</parameter></function>";
    const auto whole = ReadXmlCall(call, parameters);
    return whole.has_value() ? Json::parse(whole->arguments)[key] : Json("no call");
  };
  EXPECT_EQ(value("s", "12"), "12");
  EXPECT_EQ(value("n", "12"), 12);
  EXPECT_EQ(value("x", R"({"a": [true]})"), Json::parse(R"({"a": [true]})"));
  EXPECT_EQ(value("x", "no JSON"), "no JSON");
  EXPECT_EQ(value("s", "\n two\nlines\n\n"), " two\nlines\n") << "one line break at each end";
}

TEST(XmlCall, HasItsNameAndItsParametersInTheirOrder) {
  const std::string call =
      "<function= f >\n<parameter=b>1</parameter>\n<parameter=a>2</parameter>\n</function>";
  EXPECT_EQ(XmlCallName(call), "f");
  const auto whole = ReadXmlCall(call, nullptr);
  ASSERT_TRUE(whole.has_value());
  EXPECT_EQ(whole->name, "f");
  EXPECT_EQ(whole->arguments, R"({"b": 1, "a": 2})");
}

TEST(XmlCall, NeedsTheNameOfAToolAndParametersAlone) {
  for (const char* call :
       {"<function=></function>", "<function=two words></function>", "<function=f>x</function>",
        "<function=f><parameter=a</parameter></function>"}) {
    EXPECT_FALSE(ReadXmlCall(call, nullptr).has_value()) << call;
  }
}

}  // namespace
}  // namespace baton
