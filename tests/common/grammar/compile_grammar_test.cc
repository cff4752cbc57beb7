#include "common/grammar/compile_grammar.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "tests/common/grammar/smollm2_grammars.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

void ExpectAllowed(const GrammarSpec& spec, const std::vector<std::string>& valid,
                   const std::vector<std::string>& invalid) {
  SCOPED_TRACE(std::string(GrammarField(spec.kind)) + " " + spec.text);
  const auto grammar = CompiledFor(spec);
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  for (const std::string& text : valid) EXPECT_TRUE(Allows(**grammar, text)) << text;
  for (const std::string& text : invalid) EXPECT_FALSE(Allows(**grammar, text)) << text;
}

TEST(CompileGrammar, AJsonObjectIsAnyObjectAndNothingElse) {
  ExpectAllowed(GrammarSpec(), {"{}", R"({"a":[1,{"b":null}],"c":"\u00e4"})"},
                {"[]", "1", "\"a\"", "{", "{}{}", "{\"a\":\"\n\"}"});
}

TEST(CompileGrammar, ARegexMatchesTheWholeText) {
  ExpectAllowed(SpecOf(GrammarKind::kRegex, "(yes|no), [0-9]{2}"), {"yes, 12", "no, 00"},
                {"yes", "yes, 1", "yes, 123", "maybe, 12"});
  ExpectAllowed(SpecOf(GrammarKind::kRegex, "^a*$"), {"", "a", "aaaa"}, {"b", "ab"});
}

TEST(CompileGrammar, AGrammarHasARuleNamedRoot) {
  ExpectAllowed(SpecOf(GrammarKind::kGrammar,
                       "root ::= sum\nsum ::= number | number \"+\" sum\nnumber ::= [0-9]+"),
                {"1", "1+22+3"}, {"", "+", "1+", "a"});
  EXPECT_THAT(CompileError(SpecOf(GrammarKind::kGrammar, "start ::= \"a\"")),
              StartsWith("response_format.grammar: "));
}

TEST(CompileGrammar, AChoiceIsOneOfItsTextsAsTheyAre) {
  ExpectAllowed(ChoiceOf({"yes", "no", "a \"b\" \\n [c]*", "ja\nnein", "ä"}),
                {"yes", "no", "a \"b\" \\n [c]*", "ja\nnein", "ä"},
                {"", "ye", "yesno", "a b", "ja nein", "a \"b\" \\n c"});
}

TEST(CompileGrammar, ATagIsItsBeginTheJsonAndItsEnd) {
  ExpectAllowed(
      TagsOf({{"<call name=add>", R"({"type":"object","properties":{"x":{"type":"integer"}},
                                      "required":["x"]})",
               "</call>"},
              {"[none]", R"({"type":"null"})", ""}}),
      {R"(<call name=add>{"x":1}</call>)", "[none]null"},
      {R"({"x":1})", R"(<call name=add>{}</call>)", R"(<call name=add>{"x":1})", "[none]",
       R"([none]{"x":1})", R"(text <call name=add>{"x":1}</call>)",
       R"(<call name=add>{  "x":1}</call>)"});
  EXPECT_EQ(CompileError(TagsOf({{"<a>", "{}", ""}, {"<b>", R"({"not":{}})", ""}})),
            "response_format.structural_tags: tag 1: /not is not supported: no grammar can say it; "
            "leave it "
            "out and check the answer");
}

TEST(CompileGrammar, SeveralTagsHaveTheSeparatorBetweenThemAndTheTextsAroundThem) {
  GrammarSpec spec = TagsOf({{"a", R"({"type":"null"})", ""}, {"b", R"({"type":"null"})", "!"}});
  spec.tags_begin = "[";
  spec.tags_end = "]";
  spec.tags_separator = ", ";
  ExpectAllowed(spec, {"[anull]", "[bnull!]"}, {"anull", "[anull", "[anull, bnull!]"});
  spec.several = true;
  ExpectAllowed(spec, {"[anull]", "[anull, anull, bnull!]"}, {"[]", "[anullanull]", "[anull, ]"});
}

// The special token of a literal.
int32_t SpecialToken(const std::string& literal) {
  for (const auto& [text, token] : SmolLm2Vocabulary().special_tokens()) {
    if (text == literal) return token;
  }
  ADD_FAILURE() << literal;
  return 0;
}

TEST(CompileGrammar, ALiteralOfASpecialTokenIsThatTokenIfWanted) {
  GrammarSpec spec = TagsOf({{"<|im_start|>f", R"({"type":"null"})", "<repo_name>"}});
  ExpectAllowed(spec, {"<|im_start|>fnull<repo_name>"}, {});
  spec.parse_special = true;
  ExpectAllowed(spec, {}, {"<|im_start|>fnull<repo_name>", "fnull"});
  const auto grammar = CompiledFor(spec);
  ASSERT_TRUE(grammar.ok()) << grammar.status();
  std::vector<int32_t> tokens = {SpecialToken("<|im_start|>")};
  for (const int32_t token : TokensOf("fnull")) tokens.push_back(token);
  tokens.push_back(SpecialToken("<repo_name>"));
  auto state = GrammarState::Create(**grammar);
  ASSERT_TRUE(state.ok());
  EXPECT_TRUE(state->Replay(tokens).ok()) << state->Replay(tokens);
  EXPECT_TRUE(state->IsComplete());
  // The same after the wire, and in the mask it alone stands at the beginning.
  const auto bytes = (*grammar)->Serialize(SmolLm2Vocabulary());
  ASSERT_TRUE(bytes.ok()) << bytes.status();
  const auto parsed = CompiledGrammar::Parse(*bytes, SmolLm2Vocabulary());
  ASSERT_TRUE(parsed.ok()) << parsed.status();
  auto again = GrammarState::Create(**parsed);
  std::vector<uint32_t> mask(MaskWords(again->vocab_size()));
  ASSERT_TRUE(again->FillMask(absl::MakeSpan(mask)).ok());
  for (int32_t token = 0; token < again->vocab_size(); ++token) {
    const bool allowed = (mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1) != 0;
    EXPECT_EQ(allowed, token == tokens.front()) << token;
  }
  // No text stands for it, so none is guessed.
  again->EncodeBy(SmolLm2Tokenizer());
  EXPECT_TRUE(again->ForcedTokens(8).empty());
}

TEST(CompileGrammar, ATokenThatEndsAGenerationIsTextInATag) {
  GrammarSpec spec = TagsOf({{"<|im_end|>", R"({"type":"null"})", ""}});
  spec.parse_special = true;
  ExpectAllowed(spec, {"<|im_end|>null"}, {"null"});
}

TEST(CompileGrammar, NoTextAllowsASpecialToken) {
  for (const auto& [spec, before] : {
           std::pair(GrammarSpec(), "{\"a\":\"b"),
           std::pair(SpecOf(GrammarKind::kJsonSchema, R"({"type":"string"})"), "\""),
           std::pair(SpecOf(GrammarKind::kRegex, "[^a]*"), "b"),
           std::pair(SpecOf(GrammarKind::kRegex, ".*"), "b"),
           std::pair(SpecOf(GrammarKind::kGrammar, "root ::= [^a]*"), "b"),
           std::pair(SpecOf(GrammarKind::kGrammar, "root ::= [\\x80-\\xff]*"), "ä"),
       }) {
    const auto grammar = CompiledFor(spec);
    ASSERT_TRUE(grammar.ok()) << grammar.status();
    auto state = StateAfter(**grammar, before);
    ASSERT_TRUE(state.ok()) << state.status();
    std::vector<uint32_t> mask(MaskWords(state->vocab_size()));
    ASSERT_TRUE(state->FillMask(absl::MakeSpan(mask)).ok());
    for (const auto& [text, token] : SmolLm2Vocabulary().special_tokens()) {
      EXPECT_EQ(mask[static_cast<size_t>(token) / 32] >> (token % 32) & 1, 0u) << text;
      EXPECT_FALSE(state->Accept(token).ok()) << text;
    }
  }
}

TEST(CompileGrammar, WhatIsMalformedIsAnErrorWithoutPathsAndTimes) {
  for (const auto& [kind, text] : {
           std::pair(GrammarKind::kRegex, "a("),
           std::pair(GrammarKind::kRegex, "[z-a"),
           std::pair(GrammarKind::kRegex, "a{2"),
           std::pair(GrammarKind::kRegex, "(?<=a)b"),
           std::pair(GrammarKind::kGrammar, "root ::= \"a"),
           std::pair(GrammarKind::kGrammar, "root ::= missing"),
           std::pair(GrammarKind::kGrammar, "\x01"),
           std::pair(GrammarKind::kJsonSchema, "{"),
       }) {
    const absl::StatusOr<std::string> compiled =
        CompileGrammar(SpecOf(kind, text), SmolLm2Vocabulary());
    EXPECT_EQ(compiled.status().code(), absl::StatusCode::kInvalidArgument) << text;
    const std::string message(compiled.status().message());
    EXPECT_THAT(message, StartsWith(std::string(GrammarField(kind)) + ": ")) << text;
    EXPECT_THAT(message, ::testing::Not(HasSubstr(".cc:"))) << text;
  }
}

TEST(CompileGrammar, OptionalPartsOfRegularExpressionsAreLeftOutAsAWhole) {
  ExpectAllowed(SpecOf(GrammarKind::kRegex, "a(b[0-9]+)?(c{1,2}){2,}"), {"acc", "ab12ccc"},
                {"a1cc", "abcc", "ac", "accbcc"});
}

TEST(CompileGrammar, WhatTheLibraryWouldIgnoreIsAnError) {
  EXPECT_THAT(CompileError(SpecOf(GrammarKind::kRegex, "a(?=b)b")), HasSubstr("ookahead"));
  EXPECT_NE(CompileError(SpecOf(GrammarKind::kRegex, "a^b")), "");
}

TEST(CompileGrammar, AttributesOfRulesAreRefused) {
  for (const char* attribute : {"temperature=0.5", "max_tokens=3", "capture", "lazy"}) {
    EXPECT_THAT(CompileError(SpecOf(GrammarKind::kGrammar,
                                    std::string("root ::= a\na[") + attribute + "] ::= [a-z]+")),
                HasSubstr("has attributes, which are not supported"))
        << attribute;
  }
  // A class of characters before the sign of a definition within a string is none.
  ExpectAllowed(SpecOf(GrammarKind::kGrammar, "root ::= \"x] ::= \" [a-z]"), {"x] ::= a"}, {"x"});
}

TEST(CompileGrammar, EqualSpecsCompileToEqualBytes) {
  const GrammarSpec spec =
      SpecOf(GrammarKind::kJsonSchema,
             R"({"type":"object","properties":{"a":{"enum":["x","y"]},"b":{"type":"string"}}})");
  const absl::StatusOr<std::string> first = CompileGrammar(spec, SmolLm2Vocabulary());
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(*first, *CompileGrammar(spec, SmolLm2Vocabulary()));
}

}  // namespace
}  // namespace baton
