#include "common/grammar/schema_scalars.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::StartsWith;

// The keywords about numbers that XGrammar is to read, or the error.
std::string NumberMade(const char* schema, const SchemaTypes& types) {
  SchemaJson out = SchemaJson::object();
  const absl::Status status = CheckNumber(SchemaJson::parse(schema), types, "/a", out);
  return status.ok() ? out.dump() : std::string(status.message());
}

// The keywords about strings that XGrammar is to read, or the error.
std::string StringMade(const char* schema) {
  SchemaJson out = SchemaJson::object();
  CheckedSchema checked;
  const absl::Status status = CheckString(SchemaJson::parse(schema), "/a", out, checked);
  return status.ok() ? out.dump() : std::string(status.message());
}

TEST(SchemaScalars, APointerEscapesWhatIsASignInIt) {
  EXPECT_EQ(ChildPointer("", "a"), "/a");
  EXPECT_EQ(ChildPointer("/x", "a/b~c"), "/x/a~1b~0c");
  EXPECT_EQ(SchemaFault("", "is odd").message(), "the schema is odd");
  EXPECT_EQ(SchemaNotSupported("/x", "it is odd").message(), "/x is not supported: it is odd");
}

TEST(SchemaScalars, ACountIsAnIntegerWithinItsRange) {
  const auto count = [](const char* schema) {
    return SchemaCount(SchemaJson::parse(schema), "minItems", "/a", /*unset=*/7);
  };
  EXPECT_EQ(*count("{}"), 7);
  EXPECT_EQ(*count(R"({"minItems": 0})"), 0);
  EXPECT_EQ(*count(R"({"minItems": 2147483647})"), kMaxSchemaCount);
  for (const char* bad : {"-1", "2147483648", "1.5", "\"1\""}) {
    const auto refused = count((std::string(R"({"minItems": )") + bad + "}").c_str());
    EXPECT_EQ(refused.status().message(), "/a/minItems is not an integer from 0 to 2147483647")
        << bad;
  }
}

TEST(SchemaScalars, LengthsBecomeAPatternAndAPatternIsTheClients) {
  EXPECT_EQ(StringMade(R"({"minLength": 2, "maxLength": 5})"),
            SchemaJson({{"pattern", R"(^[^"\\\x00-\x1f]{2,5}$)"}}).dump());
  EXPECT_EQ(StringMade(R"({"minLength": 2})"),
            SchemaJson({{"pattern", R"(^[^"\\\x00-\x1f]{2,}$)"}}).dump());
  EXPECT_EQ(StringMade(R"({"minLength": 3, "maxLength": 2})"),
            "/a/minLength is more than maxLength");
  EXPECT_THAT(StringMade(R"({"pattern": "a", "maxLength": 2})"),
              StartsWith("/a/pattern is not supported: "));
  EXPECT_THAT(StringMade(R"({"pattern": "é"})"), StartsWith("/a/pattern is not supported: "));
  SchemaJson out;
  CheckedSchema checked;
  ASSERT_TRUE(CheckString(SchemaJson::parse(R"({"pattern": "^[ab]c$"})"), "/a", out, checked).ok());
  ASSERT_EQ(checked.patterns.size(), 1u);
  EXPECT_EQ(checked.patterns[0].pointer, "/a/pattern");
  EXPECT_EQ(checked.patterns[0].expression, out["pattern"]);
  checked.patterns.clear();
  ASSERT_TRUE(CheckString(SchemaJson::parse(R"({"format": "date"})"), "/a", out, checked).ok());
  EXPECT_TRUE(checked.patterns.empty()) << "the pattern of a format is not the client's";
}

TEST(SchemaScalars, BoundsOfNumbersStayWithinWhatXGrammarWrites) {
  EXPECT_EQ(NumberMade(R"({"minimum": -1e9, "exclusiveMaximum": 0.5})", {"number"}),
            R"({"minimum":-1000000000.0,"exclusiveMaximum":0.5})");
  EXPECT_THAT(NumberMade(R"({"maximum": 1000000001})", {"number"}),
              StartsWith("/a/maximum is not supported: it is not within"));
  EXPECT_EQ(NumberMade(R"({"maximum": 1000000001})", {"integer"}), R"({"maximum":1000000001})");
  EXPECT_THAT(NumberMade(R"({"minimum": 0.1234567})", {"number"}),
              StartsWith("/a/minimum is not supported: it has more than six decimals"));
  EXPECT_THAT(NumberMade(R"({"minimum": 0.5})", {"integer"}),
              StartsWith("/a/minimum is not supported: a bound of integers"));
  EXPECT_EQ(NumberMade(R"({"minimum": "1"})", {"number"}), "/a/minimum is not a number");
}

TEST(SchemaScalars, AFormatOfIntegersAddsTheBoundsThatAreMissing) {
  EXPECT_EQ(NumberMade(R"({"format": "int32"})", {"integer"}),
            R"({"minimum":-2147483648,"maximum":2147483647})");
  EXPECT_EQ(NumberMade(R"({"format": "int32", "exclusiveMinimum": 0})", {"integer"}),
            R"({"exclusiveMinimum":0,"maximum":2147483647})");
  EXPECT_EQ(NumberMade(R"({"format": "double"})", {"number"}), "{}");
  EXPECT_THAT(NumberMade(R"({"format": "int32"})", {"number"}),
              StartsWith("/a/format is not supported: "));
  EXPECT_EQ(NumberMade(R"({"multipleOf": 1024})", {"integer"}), R"({"multipleOf":1024})");
  EXPECT_THAT(NumberMade(R"({"multipleOf": 1025})", {"integer"}),
              StartsWith("/a/multipleOf is not supported: it is not an integer from 1 to 1024"));
}

}  // namespace
}  // namespace baton
