#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "common/flags/flags.h"

namespace baton {
namespace {

class FlagKindsTest : public testing::Test {
 protected:
  // The error of --flag=text, without what names the flag; "" if it was taken.
  std::string Set(const std::string& text) {
    const absl::Status status = flags_.Set("flag", text);
    EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
    return std::string(status.message());
  }
  bool Taken(const std::string& text) { return Set(text).empty(); }

  FlagSet flags_{"test", "A program of the test."};
};

TEST_F(FlagKindsTest, AnIntIsWithinItsBoundsOnBothSides) {
  int value = 5;
  flags_.AddInt("flag", value, -2, 4096, "help");
  for (const auto& [text, number] : std::vector<std::pair<std::string, int>>{
           {"-2", -2}, {"4096", 4096}, {"4K", 4096}, {"1k", 1000}}) {
    EXPECT_TRUE(Taken(text)) << text;
    EXPECT_EQ(value, number);
  }
  for (const std::string text : {"-3", "4097", "1.5", "x", "", "99999999999999999999"}) {
    EXPECT_FALSE(Taken(text)) << text;
    EXPECT_EQ(value, 1000) << text;
  }
}

TEST_F(FlagKindsTest, AListOfIntsReplacesItsDefaultAndChecksEach) {
  std::vector<int> values = {7};
  flags_.AddInts("flag", values, 0, 10, "help");
  EXPECT_TRUE(Taken("1,2"));
  EXPECT_EQ(values, (std::vector<int>{1, 2}));
  EXPECT_FALSE(Taken("1,11"));
}

TEST_F(FlagKindsTest, ADoubleIsFiniteAndWithinItsBounds) {
  double value = 0.5;
  flags_.AddDouble("flag", value, 0, 1, "help");
  for (const std::string text : {"0", "1", "0.25", "1e-3"}) EXPECT_TRUE(Taken(text)) << text;
  EXPECT_EQ(value, 1e-3);
  for (const std::string text : {"-0.1", "1.01", "nan", "inf", "x", ""})
    EXPECT_FALSE(Taken(text)) << text;
  EXPECT_EQ(value, 1e-3);
}

TEST_F(FlagKindsTest, BytesTakeSuffixes) {
  uint64_t value = 0;
  flags_.AddBytes("flag", value, "help");
  EXPECT_TRUE(Taken("1.5GiB"));
  EXPECT_EQ(value, uint64_t{3} << 29);
  EXPECT_FALSE(Taken("-1"));
}

TEST_F(FlagKindsTest, ADurationHasAUnitAndItsBounds) {
  absl::Duration value = absl::Seconds(5);
  flags_.AddDuration("flag", value, absl::Milliseconds(10), absl::Minutes(1), "help");
  EXPECT_TRUE(Taken("10ms"));
  EXPECT_TRUE(Taken("1m"));
  EXPECT_EQ(value, absl::Minutes(1));
  EXPECT_FALSE(Taken("30"));
  EXPECT_NE(Set("9ms").find("is not from 10ms to 1m"), std::string::npos);
  EXPECT_NE(Set("61s").find("is not from 10ms to 1m"), std::string::npos);
  EXPECT_EQ(value, absl::Minutes(1));
}

TEST_F(FlagKindsTest, AStringIsAnyOrOneOfItsChoices) {
  std::string value = "b";
  flags_.AddString("flag", value, "help", {"a", "b"});
  EXPECT_TRUE(Taken("a"));
  EXPECT_NE(Set("c").find("is not one of a, b"), std::string::npos);
  EXPECT_FALSE(Taken("A"));
  EXPECT_EQ(value, "a");
}

TEST_F(FlagKindsTest, ANamedValueIsTheMeaningOfItsName) {
  enum class Colour { kRed, kBlue };
  Colour value = Colour::kBlue;
  flags_.AddNamed("flag", value, "help",
                  std::vector<std::pair<std::string, Colour>>{
                      {"red", Colour::kRed}, {"blue", Colour::kBlue}, {"azure", Colour::kBlue}});
  EXPECT_TRUE(Taken("red"));
  EXPECT_EQ(value, Colour::kRed);
  EXPECT_TRUE(Taken("azure"));
  EXPECT_EQ(value, Colour::kBlue);
  EXPECT_FALSE(Taken("green"));
  EXPECT_EQ(value, Colour::kBlue);
}

TEST_F(FlagKindsTest, OnlyAnAddressThatIsEmptyByDefaultMayBeEmpty) {
  std::string optional;
  std::string needed = "127.0.0.1:1";
  flags_.AddAddress("flag", optional, "help");
  flags_.AddAddress("needed", needed, "help");
  EXPECT_TRUE(Taken("grpc://localhost:80"));
  EXPECT_EQ(optional, "localhost:80");
  EXPECT_TRUE(Taken(""));
  EXPECT_EQ(optional, "");
  EXPECT_FALSE(flags_.Set("needed", "").ok());
  EXPECT_FALSE(Taken("localhost"));
}

TEST_F(FlagKindsTest, EachAddressOfAListIsCheckedAndNormal) {
  std::vector<std::string> values = {"default:1"};
  flags_.AddAddresses("flag", values, "help");
  EXPECT_TRUE(Taken("grpc://a:1,b:2"));
  EXPECT_EQ(values, (std::vector<std::string>{"a:1", "b:2"}));
  EXPECT_FALSE(Taken("a:1,b"));
}

TEST_F(FlagKindsTest, StringsAreCutAtCommasAndTextsAreNot) {
  std::vector<std::string> strings = {"default"};
  std::vector<std::string> texts = {"default"};
  flags_.AddStrings("flag", strings, "help");
  flags_.AddTexts("texts", texts, "help");
  EXPECT_TRUE(Taken("a,b"));
  EXPECT_EQ(strings, (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(flags_.Set("texts", "a,b").ok());
  EXPECT_EQ(texts, (std::vector<std::string>{"a,b"}));
}

}  // namespace
}  // namespace baton
