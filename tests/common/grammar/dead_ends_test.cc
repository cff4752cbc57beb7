// What can never match is found where a form is compiled, and nothing else; walks through random
// grammars are the judge.
#include "common/grammar/dead_ends.h"

#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/base/token_mask.h"
#include "common/grammar/compile_grammar.h"
#include "common/grammar/grammar_state.h"
#include "tests/common/grammar/byte_vocabulary.h"
#include "tests/common/grammar/or_abort.h"
#include "tests/common/grammar/specs.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kHalves[] = " matches no text: neither U+D800 to U+DFFF (halves of UTF-16 pairs)";

std::string CompileFault(const GrammarSpec& spec) {
  const absl::Status status = CompileGrammar(spec, ByteVocabulary()).status();
  EXPECT_TRUE(status.ok() || absl::IsInvalidArgument(status)) << status;
  return std::string(status.message());
}

std::string RegexFault(const std::string& text) {
  return CompileFault(SpecOf(GrammarKind::kRegex, text));
}
std::string GrammarFault(const std::string& text) {
  return CompileFault(SpecOf(GrammarKind::kGrammar, text));
}
std::string FaultOfSchema(const std::string& text) {
  return CompileFault(SpecOf(GrammarKind::kJsonSchema, text));
}
std::string PatternFault(const std::string& pattern) {
  return FaultOfSchema(
      absl::StrCat(R"({"type":"array","items":{"type":"string","pattern":")", pattern, R"("}})"));
}

TEST(DeadEnds, HalvesOfPairsAreRefusedInARegexWhereverTheyStand) {
  for (const auto& [regex, shown] : {
           std::pair(R"(\ud83d\ude00)", R"("\ud83d")"),
           std::pair(R"(ab\udfff?)", R"("\udfff")"),
           std::pair(R"(a|b[\ud800-\udbff][\udc00-\udfff])", R"([\ud800-\udbff])"),
           std::pair(R"([\udc00-\udfff]*)", R"([\udc00-\udfff])"),
           std::pair(R"([\ud83d\ude00]{2,3}x)", R"([\ud83d\ude00])"),
           std::pair(R"([^\u0000-\ud7ff\ue000-\u{10ffff}])",
                     R"([^\u0000-\ud7ff\ue000-\U0010ffff])"),
       }) {
    EXPECT_THAT(RegexFault(regex),
                StartsWith(absl::StrCat("response_format.regex: ", shown, kHalves)));
  }
}

TEST(DeadEnds, HalvesOfPairsAreRefusedInAGrammarThatUsesThem) {
  for (const auto& [rules, shown] : {
           std::pair(R"(root ::= "a" "\ud83d" "\ude00")", R"("\ud83d")"),
           std::pair(R"(root ::= "ü" | x
                        x ::= [\ud800-\udfff]+)",
                     R"([\ud800-\udfff])"),
           std::pair(R"(root ::= "a" Regex("x[\\udead-\\udeaf]"))", R"([\udead-\udeaf])"),
           std::pair(R"(root ::= Substring("a", "b\udead"))", R"("b\udead")"),
           std::pair(R"(root ::= [\U00110000-\U00120000])", R"([\U00110000-\U00120000])"),
       }) {
    EXPECT_THAT(GrammarFault(rules),
                StartsWith(absl::StrCat("response_format.grammar: ", shown, kHalves)));
  }
  EXPECT_EQ(GrammarFault("root ::= \"a\"\nunused ::= [\\ud800]"), "");
}

TEST(DeadEnds, AClassThatMerelyHasHalvesWorksWithoutThem) {
  for (const char* text : {R"([\ud7ff-\ud800])", R"([\udfff-\ue000]b)", R"([^a])", ".",
                           R"([\ud83d😀])", R"([^\u0000-\ud7ff])", R"(\u{1f600}\ud7ff\ue000)"}) {
    EXPECT_EQ(RegexFault(text), "") << text;
  }
}

TEST(DeadEnds, ASchemasStringsAndPatternsHaveNoHalves) {
  for (const char* schema :
       {R"({"const":"\ud83d"})", R"({"enum":["a","x\udc00y"]})",
        R"({"type":"object","properties":{"\ud83d":{}}})", R"({"title":"\ud83d","type":"null"})",
        R"({"type":"object","required":["\ude00\ud83d"]})"}) {
    EXPECT_THAT(FaultOfSchema(schema),
                StartsWith("response_format.json_schema: the schema has \\ud"));
    EXPECT_THAT(FaultOfSchema(schema), HasSubstr("half of a UTF-16 pair")) << schema;
    EXPECT_THAT(CompileFault(TagsOf({{.begin = "<", .schema = schema, .end = ">"}})),
                StartsWith("response_format.structural_tags: tag 0: the schema has \\ud"));
  }
  EXPECT_EQ(FaultOfSchema(R"({"const":"\ud83d\ude00"})"), "");
  for (const char* pattern : {R"(a\\ud83d)", R"([\\ud800-\\udbff][\\udc00-\\udfff]|x)"}) {
    EXPECT_THAT(PatternFault(pattern),
                StartsWith("response_format.json_schema: /items/pattern is not supported: "));
    EXPECT_THAT(PatternFault(pattern), HasSubstr(kHalves)) << pattern;
  }
  EXPECT_EQ(PatternFault(R"([\\ud7ff-\\udfff]+)"), "");
}

// XGrammar takes what JSON escapes out of a pattern's automaton, and leaves what stood before it.
TEST(DeadEnds, APatternThatWouldWantWhatJsonEscapesIsRefused) {
  for (const char* pattern : {R"(a\"|b)", R"(a\\\\|b)", R"(b|[a-c]?\\n)", R"(b|a[\\x00-\\x1f]c)"}) {
    EXPECT_THAT(PatternFault(pattern),
                HasSubstr(" matches only characters that a JSON string must escape, so an"))
        << pattern;
  }
  for (const char* pattern : {R"(\"?a)", R"((\\n|b)c)", R"([^b]+)", R"(a(\"x|b))", R"([\"-z]a)"}) {
    EXPECT_EQ(PatternFault(pattern), "") << pattern;
  }
}

TEST(DeadEnds, ARuleThatMatchesNothingIsRefusedBehindSomething) {
  EXPECT_EQ(GrammarFault("root ::= \"a\" x\nx ::= x | y \"b\"\ny ::= y"),
            "response_format.grammar: rule x matches no text, so an answer could not continue "
            "there; remove or change that part");
  for (const int token : {70000, 0xc0, 0xed, 0xff}) {
    EXPECT_THAT(GrammarFault(absl::StrCat("root ::= [a-c]* Token(", token, ")")),
                HasSubstr("a part matches no text"));
  }
  EXPECT_EQ(GrammarFault("root ::= [a-c]* Token(98, 192)"), "");
  EXPECT_THAT(FaultOfSchema(R"({"type":"array","minItems":1,"items":{"$ref":"#/$defs/a"},
                              "$defs":{"a":{"$ref":"#/$defs/a"}}})"),
              HasSubstr("the schema is not supported: it leads back to itself"));
  for (const char* rules : {"root ::= x \"a\" | \"b\"\nx ::= x", "root ::= \"a\" root",
                            "root ::= \"a\" x* \"b\"\nx ::= x \"c\""}) {
    EXPECT_EQ(GrammarFault(rules), "") << rules;
  }
  EXPECT_EQ(GrammarFault("root ::= x\nx ::= x"), "response_format.grammar: no answer can match it");
}

// Rules of strings, classes and each other, some of which match nothing. A rule names itself, and
// those before it, only behind a character.
std::string RandomRules(std::mt19937& random) {
  const auto one_of = [&](const std::vector<std::string>& texts) {
    return texts[random() % texts.size()];
  };
  const std::vector<std::string> names = {"root", "x", "y", "z"};
  std::string rules;
  for (size_t rule = 0; rule < names.size(); ++rule) {
    absl::StrAppend(&rules, names[rule], " ::= ");
    for (size_t choice = random() % 3 + 1; choice > 0; --choice) {
      for (size_t part = random() % 3 + 1; part > 0; --part) {
        const std::string own = one_of({"\"a\"", "\"b\"", "\"\"", "[a-c]", "[\\ud7f0-\\ud900]",
                                        "[^a-c]", "Token(192)", "\"ü\""});
        const size_t named = rule + 1 + random() % 3;
        if (random() % 3 > 0) {
          absl::StrAppend(&rules, own, one_of({"", "", "", "?", "*", "{2}"}), " ");
        } else if (named < names.size()) {
          absl::StrAppend(&rules, names[named], " ");
        } else {
          absl::StrAppend(&rules, one_of({"\"a\" ", "[b-c] "}), one_of(names), " ");
        }
      }
      if (choice > 1) rules += "| ";
    }
    rules += "\n";
  }
  return rules;
}

// Whether a random answer met a dead end.
bool WalkIsStuck(const CompiledGrammar& grammar, std::mt19937& random) {
  GrammarState state = OrAbort(GrammarState::Create(grammar));
  std::vector<uint32_t> mask(MaskWords(state.vocab_size()));
  for (int step = 0; step < 20 && !state.IsTerminated(); ++step) {
    if (!state.FillMask(absl::MakeSpan(mask)).ok()) return true;
    std::vector<int32_t> allowed;
    for (int32_t token = 0; token < state.vocab_size(); ++token) {
      if (MaskAllows(mask.data(), token)) allowed.push_back(token);
    }
    // Letters of the rules mostly, since almost all others are of one class.
    const int32_t drawn = random() % 2 == 0 ? allowed[0] : allowed[random() % allowed.size()];
    EXPECT_TRUE(state.Accept(drawn).ok());
  }
  return false;
}

TEST(DeadEnds, OfRandomGrammarsAreAllFound) {
  std::mt19937 random(1);
  int stuck = 0, sound = 0, refused = 0;
  for (int i = 0; i < 400; ++i) {
    const std::string rules = RandomRules(random);
    SCOPED_TRACE(rules);
    const xgrammar::Grammar grammar = xgrammar::Grammar::FromEBNF(rules);
    const bool is_sound = CheckDeadEnds(grammar, ByteVocabulary()).ok();
    const CompiledGrammar compiled = CompiledAsItIs(grammar);
    GrammarState first = OrAbort(GrammarState::Create(compiled));
    std::vector<uint32_t> mask(MaskWords(first.vocab_size()));
    if (!first.FillMask(absl::MakeSpan(mask)).ok()) continue;
    bool is_stuck = false;
    for (int walk = 0; walk < 30 && !is_stuck; ++walk) is_stuck = WalkIsStuck(compiled, random);
    EXPECT_FALSE(is_stuck && is_sound);
    stuck += is_stuck;
    sound += is_sound;
    refused += !is_sound && !is_stuck;
  }
  EXPECT_GT(stuck, 30);
  EXPECT_GT(sound, 30);
  EXPECT_LT(refused, 2 * stuck) << "of what is refused, thirty walks meet much";
}

}  // namespace
}  // namespace baton
