#include "router/tools/json_scanner.h"

#include <string>

#include "gtest/gtest.h"

namespace baton {
namespace {

// How many bytes the scanner takes until it says more than kMore, and what it says.
std::pair<size_t, JsonScanner::Result> Scanned(const std::string& text) {
  JsonScanner scanner;
  for (size_t i = 0; i < text.size(); ++i) {
    const JsonScanner::Result result = scanner.Push(text[i]);
    if (result != JsonScanner::Result::kMore) return {i + 1, result};
  }
  return {text.size(), JsonScanner::Result::kMore};
}

TEST(JsonScanner, FindsTheEndOfAValue) {
  for (const std::string& value :
       {std::string("{}"), std::string("[]"),
        std::string(R"({"a":"}\"]","b":[1,-2.5e3,true,null]})"),
        std::string(" { \"a\" : { } , \"b\" : [ [ ] ] }"), std::string("[\"a\nb\"]")}) {
    EXPECT_EQ(Scanned(value + "}"), std::pair(value.size(), JsonScanner::Result::kDone)) << value;
    EXPECT_EQ(Scanned(value.substr(0, value.size() - 1)).second, JsonScanner::Result::kMore);
  }
}

TEST(JsonScanner, RefusesTheFirstByteThatCannotStandThere) {
  for (const std::string& text :
       {std::string("{]"), std::string("{a"), std::string("{\"a\","), std::string("{\"a\":}"),
        std::string("{\"a\":1,}"), std::string("[1,]"), std::string("[1 2"), std::string("[tru]"),
        std::string("[01,"), std::string("\""), std::string("1"),
        std::string(JsonScanner::kMaxDepth + 1, '['),
        "[" + std::string(JsonScanner::kMaxScalarBytes + 1, '1')}) {
    EXPECT_EQ(Scanned(text), std::pair(text.size(), JsonScanner::Result::kBad)) << text;
  }
}

}  // namespace
}  // namespace baton
