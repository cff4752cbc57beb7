#include "common/grammar/grammar_spec.h"

#include "gtest/gtest.h"

#include "tests/common/grammar/specs.h"

namespace baton {
namespace {

GrammarSpec SeveralTags() {
  GrammarSpec spec = TagsOf({{"<a>", "{}", ""}});
  spec.tags_begin = "[";
  spec.tags_end = "]";
  spec.tags_separator = ",";
  spec.several = true;
  spec.parse_special = true;
  return spec;
}

std::vector<GrammarSpec> OneOfEachKind() {
  return {GrammarSpec(),
          SpecOf(GrammarKind::kJsonSchema, "{}"),
          SpecOf(GrammarKind::kRegex, "[a-z]+"),
          SpecOf(GrammarKind::kGrammar, "root ::= \"a\""),
          ChoiceOf({"yes", "no"}),
          TagsOf({{"<a>", "{}", "</a>"}, {"<b>", "{}", ""}}),
          SeveralTags()};
}

TEST(GrammarSpecs, OneOfEachKindIsValidAndComesBackFromItsBytes) {
  for (const GrammarSpec& spec : OneOfEachKind()) {
    SCOPED_TRACE(std::string(GrammarField(spec.kind)));
    EXPECT_TRUE(ValidateGrammarSpec(spec).ok()) << ValidateGrammarSpec(spec);
    const absl::StatusOr<GrammarSpec> parsed = ParseGrammarSpec(SerializeGrammarSpec(spec));
    ASSERT_TRUE(parsed.ok()) << parsed.status();
    EXPECT_EQ(parsed->kind, spec.kind);
    EXPECT_EQ(parsed->text, spec.text);
    EXPECT_EQ(parsed->choices, spec.choices);
    EXPECT_EQ(parsed->tags_begin, spec.tags_begin);
    EXPECT_EQ(parsed->tags_end, spec.tags_end);
    EXPECT_EQ(parsed->tags_separator, spec.tags_separator);
    EXPECT_EQ(parsed->several, spec.several);
    EXPECT_EQ(parsed->parse_special, spec.parse_special);
    ASSERT_EQ(parsed->tags.size(), spec.tags.size());
    for (size_t i = 0; i < spec.tags.size(); ++i) {
      EXPECT_EQ(parsed->tags[i].begin, spec.tags[i].begin);
      EXPECT_EQ(parsed->tags[i].schema, spec.tags[i].schema);
      EXPECT_EQ(parsed->tags[i].end, spec.tags[i].end);
    }
  }
}

TEST(GrammarSpecs, WhatIsWrongIsNamedWithItsField) {
  const struct {
    GrammarSpec spec;
    std::string error;
  } cases[] = {
      {SpecOf(GrammarKind::kJsonSchema, ""), "response_format.json_schema is empty"},
      {SpecOf(GrammarKind::kRegex, ""), "response_format.regex is empty"},
      {SpecOf(GrammarKind::kGrammar, ""), "response_format.grammar is empty"},
      {ChoiceOf({}), "response_format.choice has no choice"},
      {ChoiceOf({"a", ""}), "response_format.choice has an empty choice"},
      {ChoiceOf(std::vector<std::string>(kMaxGrammarAlternatives + 1, "a")),
       "response_format.choice has more than 1024 alternatives"},
      {TagsOf({}), "response_format.structural_tags has no tag"},
      {TagsOf({{"", "{}", ""}}), "response_format.structural_tags has a tag without a begin"},
      {TagsOf({{"<a>", "", ""}}), "response_format.structural_tags has a tag without a schema"},
      {SpecOf(GrammarKind::kRegex, "a\xff"), "response_format.regex is not UTF-8"},
      {SpecOf(GrammarKind::kRegex, std::string(kMaxGrammarSpecBytes + 1, 'a')),
       "response_format.regex has more than 262144 bytes"},
      {ChoiceOf({std::string(kMaxGrammarSpecBytes, 'a'), "a"}),
       "response_format.choice has more than 262144 bytes"},
  };
  for (const auto& [spec, error] : cases) {
    const absl::Status status = ValidateGrammarSpec(spec);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << error;
    EXPECT_EQ(status.message(), error);
  }
}

TEST(GrammarSpecs, BytesThatNobodySerialisedAreAnError) {
  EXPECT_FALSE(ParseGrammarSpec("").ok());
  EXPECT_FALSE(ParseGrammarSpec("garbage").ok());
  for (const GrammarSpec& spec : OneOfEachKind()) {
    std::string bytes = SerializeGrammarSpec(spec);
    bytes[4] = 6;  // the kind
    EXPECT_FALSE(ParseGrammarSpec(bytes).ok());
  }
  // A text more than its kind has.
  std::string bytes = SerializeGrammarSpec(GrammarSpec()) + std::string("\1\0\0\0a", 5);
  EXPECT_EQ(ParseGrammarSpec(bytes).status().code(), absl::StatusCode::kDataLoss);
  bytes = SerializeGrammarSpec(TagsOf({{"<a>", "{}", ""}})) + std::string("\1\0\0\0a", 5);
  EXPECT_EQ(ParseGrammarSpec(bytes).status().code(), absl::StatusCode::kDataLoss);
}

}  // namespace
}  // namespace baton
