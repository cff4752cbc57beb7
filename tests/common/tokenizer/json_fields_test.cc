#include "common/tokenizer/json_fields.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

const nlohmann::json& SomeFields() {
  static const auto* const kFields = new nlohmann::json(nlohmann::json::parse(
      R"({"text": "t", "list": [1, 2], "no": false, "null": null, "number": 3})"));
  return *kFields;
}

TEST(TokenizerJsonFields, AFieldThatIsMissingIsNull) {
  EXPECT_EQ(Field(SomeFields(), "number"), 3);
  EXPECT_TRUE(Field(SomeFields(), "other").is_null());
  EXPECT_TRUE(Field(nlohmann::json::array({"text"}), "text").is_null()) << "no object";
}

TEST(TokenizerJsonFields, HaveTheTypeThatIsAskedFor) {
  EXPECT_EQ(*StringField(SomeFields(), "p", "text"), "t");
  EXPECT_EQ((*ArrayField(SomeFields(), "p", "list"))->size(), 2u);
  EXPECT_FALSE(*BoolField(SomeFields(), "p", "no", true));
  EXPECT_TRUE(*BoolField(SomeFields(), "p", "null", true));
  EXPECT_FALSE(*BoolField(SomeFields(), "p", "other", false));
}

TEST(TokenizerJsonFields, OfAnotherTypeAreNamedWithTheirPath) {
  EXPECT_EQ(StringField(SomeFields(), "p", "number").status(),
            absl::InvalidArgumentError("p: \"number\" is missing or not a string"));
  EXPECT_EQ(StringField(SomeFields(), "p", "null").status(),
            absl::InvalidArgumentError("p: \"null\" is missing or not a string"));
  EXPECT_EQ(ArrayField(SomeFields(), "p", "text").status(),
            absl::InvalidArgumentError("p: \"text\" is missing or not an array"));
  EXPECT_EQ(BoolField(SomeFields(), "p", "number", true).status(),
            absl::InvalidArgumentError("p: \"number\" is missing or neither true nor false"));
}

}  // namespace
}  // namespace baton
