#include "router/tools/custom_input.h"

#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include <nlohmann/json.hpp>

namespace baton {
namespace {

// The text of arguments that come in pieces of so many bytes.
std::string TextOf(const std::string& arguments, size_t piece_bytes) {
  CustomInput input;
  std::string text;
  for (size_t at = 0; at < arguments.size(); at += piece_bytes) {
    text += input.Add(arguments.substr(at, piece_bytes));
  }
  return text + input.Finish();
}

TEST(CustomInput, TheTextIsTheStringHoweverTheArgumentsAreCut) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"input": "*** Begin Patch\n+a\n"})", "*** Begin Patch\n+a\n"},
      {R"( { "input" : "\"\\\/\b\f\r\t" , "more": "\"" } )", "\"\\/\b\f\r\t"},
      {R"({"input": "\u00e9\u20AC\ud83d\ude00"})", "\u00e9\u20ac\U0001F600"},
      {"{\"input\": \"\u00e9\U0001F600\"}", "\u00e9\U0001F600"},
      {R"({"input": ""})", ""},
      // What is no JSON, as a model may write it.
      {"{\"input\": \"two\nlines\"}", "two\nlines"},
      {R"({"input": "\d+\q"})", R"(\d+\q)"},
      {R"({"input": "\u12x\u"})", R"(\u12x\u)"},
      {R"({"input": "\ud83dx\ude00\ud83d"})", "\ufffdx\ufffd\ufffd"},
      // What is cut off.
      {R"({"input": "half)", "half"},
      {R"({"input": "half\u00)", "half"},
      {R"({"input": "half\ud83d)", "half\ufffd"},
  };
  for (const auto& [arguments, text] : cases) {
    for (const size_t piece_bytes :
         {size_t{1}, size_t{2}, size_t{3}, size_t{7}, arguments.size()}) {
      EXPECT_EQ(TextOf(arguments, piece_bytes), text) << arguments << " by " << piece_bytes;
    }
  }
}

TEST(CustomInput, TheTextComesWhileTheModelWritesIt) {
  CustomInput input;
  EXPECT_EQ(input.Add(R"({"inp)"), "");
  EXPECT_EQ(input.Add(R"(ut": "a\)"), "a");
  EXPECT_EQ(input.Add(R"(nb)"), "\nb");
  EXPECT_EQ(input.Add(R"("})"), "");
  EXPECT_EQ(input.Finish(), "");
}

TEST(CustomInput, ArgumentsOfAnotherFormAreATextThemselves) {
  const std::string blanks(300, ' ');
  const std::vector<std::pair<std::string, std::string>> cases = {
      {R"({"patch": "a"})", R"({"patch": "a"})"},
      {R"({"why": "x", "input": "a\nb"})", "a\nb"},
      {blanks + R"({"input": "a\nb"})", "a\nb"},
      {blanks + "{\"input\": \"two\nlines\"}", blanks + "{\"input\": \"two\nlines\"}"},
      {R"({"input": 3})", R"({"input": 3})"},
      {R"({"input": )", R"({"input": )"},
      {"*** Begin Patch", "*** Begin Patch"},
      {R"("a")", R"("a")"},
      {"", ""},
  };
  for (const auto& [arguments, text] : cases) {
    for (const size_t piece_bytes : {size_t{1}, arguments.size() + 1}) {
      EXPECT_EQ(TextOf(arguments, piece_bytes), text) << arguments;
    }
  }
}

TEST(CustomInput, AnEarlierCallsTextGoesThereAndBack) {
  for (const std::string& text :
       {std::string("a\n\"b\"\\"), std::string("\u00e9\0\x01", 4), std::string()}) {
    const std::string arguments = CustomArguments(text);
    EXPECT_EQ(TextOf(arguments, 1), text);
    EXPECT_EQ(nlohmann::json::parse(arguments), nlohmann::json({{"input", text}}));
  }
}

}  // namespace
}  // namespace baton
