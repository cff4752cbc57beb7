#include "router/front/response_format.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "common/rpc/status.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

TEST(ResponseFormat, EveryFormBecomesItsSpec) {
  v1::ResponseFormat format;
  format.mutable_json_object();
  EXPECT_EQ(GrammarSpecOf(format)->kind, GrammarKind::kJsonObject);
  format.set_json_schema("{}");
  EXPECT_EQ(GrammarSpecOf(format)->kind, GrammarKind::kJsonSchema);
  EXPECT_EQ(GrammarSpecOf(format)->text, "{}");
  format.set_regex("[a]");
  EXPECT_EQ(GrammarSpecOf(format)->kind, GrammarKind::kRegex);
  EXPECT_EQ(GrammarSpecOf(format)->text, "[a]");
  format.set_grammar("root ::= \"a\"");
  EXPECT_EQ(GrammarSpecOf(format)->kind, GrammarKind::kGrammar);
  EXPECT_EQ(GrammarSpecOf(format)->text, "root ::= \"a\"");
  format.mutable_choice()->add_texts("yes");
  format.mutable_choice()->add_texts("no");
  EXPECT_EQ(GrammarSpecOf(format)->kind, GrammarKind::kChoice);
  EXPECT_THAT(GrammarSpecOf(format)->choices, ElementsAre("yes", "no"));
  v1::StructuralTag& tag = *format.mutable_structural_tags()->add_tags();
  tag.set_begin("<f>");
  tag.set_schema("{}");
  tag.set_end("</f>");
  const auto spec = GrammarSpecOf(format);
  EXPECT_EQ(spec->kind, GrammarKind::kTags);
  ASSERT_EQ(spec->tags.size(), 1u);
  EXPECT_EQ(spec->tags[0].begin, "<f>");
  EXPECT_EQ(spec->tags[0].schema, "{}");
  EXPECT_EQ(spec->tags[0].end, "</f>");
}

TEST(ResponseFormat, WhatIsNotWellFormedIsNamedByItsField) {
  const struct {
    void (*fill)(v1::ResponseFormat&);
    const char* field;
  } cases[] = {
      {[](v1::ResponseFormat&) {}, "response_format"},
      {[](v1::ResponseFormat& f) { f.set_json_schema(""); }, "response_format.json_schema"},
      {[](v1::ResponseFormat& f) { f.set_regex(std::string(kMaxGrammarSpecBytes + 1, 'a')); },
       "response_format.regex"},
      {[](v1::ResponseFormat& f) { f.set_grammar(""); }, "response_format.grammar"},
      {[](v1::ResponseFormat& f) { f.mutable_choice(); }, "response_format.choice"},
      {[](v1::ResponseFormat& f) { f.mutable_structural_tags()->add_tags(); },
       "response_format.structural_tags"},
  };
  for (const auto& [fill, field] : cases) {
    v1::ResponseFormat format;
    fill(format);
    const absl::Status status = GrammarSpecOf(format).status();
    ASSERT_EQ(FieldViolations(status).size(), 1u) << status;
    EXPECT_EQ(FieldViolations(status)[0].field, field);
  }
}

TEST(ResponseFormat, WhatTheCompilerRefusesIsNamedByItsFieldAndWhatItCannotDoMayBeTriedAgain) {
  const absl::Status refused = GrammarFault(
      GrammarKind::kJsonSchema,
      absl::InvalidArgumentError("response_format.json_schema: /not is not supported: no"));
  EXPECT_THAT(FieldViolations(refused), ElementsAre(FieldViolation{"response_format.json_schema",
                                                                   "/not is not supported: no"}));
  const absl::Status busy =
      GrammarFault(GrammarKind::kRegex, absl::ResourceExhaustedError("the machine is busy"));
  EXPECT_TRUE(RetryDelay(busy).has_value());
  EXPECT_EQ(busy.message(), "the machine is busy");
  EXPECT_EQ(GrammarFault(GrammarKind::kRegex, absl::InternalError("x")), absl::InternalError("x"));
}

TEST(ResponseFormat, AFaultOfAFormThatFollowsFromToolsNamesTheTools) {
  v1::GenerateRequest request;
  const absl::Status fault = InvalidField("response_format.structural_tags", "tag 0: /not");
  EXPECT_THAT(FieldViolations(NamingTools(request, fault)),
              ElementsAre(FieldViolation{"chat.tools", "tag 0: /not"}));
  const absl::Status other = InvalidField("chat.tool_choice.name", "is no tool");
  EXPECT_EQ(NamingTools(request, other), other);
  request.mutable_response_format();
  EXPECT_EQ(NamingTools(request, fault), fault);
}

}  // namespace
}  // namespace baton
