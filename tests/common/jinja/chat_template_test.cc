#include "common/jinja/chat_template.h"

#include <algorithm>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <nlohmann/json.hpp>

#include "tests/common/jinja/chat_template_goldens.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

std::string Concatenate(const std::vector<TextPiece>& pieces) {
  std::string text;
  for (const TextPiece& piece : pieces) text += piece.text;
  return text;
}

// The trusted text, with a mark for each piece of untrusted text.
std::string TrustedSkeleton(const std::vector<TextPiece>& pieces) {
  std::string text;
  for (const TextPiece& piece : pieces) text += piece.trusted ? piece.text : "\x01";
  return text;
}

// Compares a rendering with a golden, which has "output", "raised" (by raise_exception) or
// "failed".
void ExpectGolden(const absl::StatusOr<std::vector<TextPiece>>& pieces,
                  const nlohmann::json& golden) {
  if (golden.contains("output")) {
    ASSERT_TRUE(pieces.ok()) << pieces.status();
    EXPECT_EQ(Concatenate(*pieces), golden["output"].get<std::string>());
  } else {
    ASSERT_FALSE(pieces.ok()) << Concatenate(*pieces);
    EXPECT_EQ(pieces.status().code(), absl::StatusCode::kInvalidArgument);
    if (golden.contains("raised")) {
      EXPECT_EQ(std::string(pieces.status().message()), golden["raised"].get<std::string>());
    }
  }
}

TEST(ChatTemplate, RendersEveryTemplateAsJinja2Does) {
  ASSERT_GE(TemplateFiles().size(), 23u);
  for (const std::string& file : TemplateFiles()) {
    const auto compiled = ChatTemplate::Compile(ReadFile(kFolder + file));
    ASSERT_TRUE(compiled.ok()) << file << ": " << compiled.status();
    for (const auto& golden : Goldens()["templates"][file]) {
      const std::string conversation = golden["conversation"];
      SCOPED_TRACE(file + " with " + conversation);
      ExpectGolden(compiled->Render(Conversation(conversation),
                                    Options(golden["add_generation_prompt"].get<bool>())),
                   golden);
    }
  }
}

TEST(ChatTemplate, EvaluatesEverySnippetAsJinja2Does) {
  const Messages messages = Conversation("literals");
  for (const auto& golden : Goldens()["snippets"]) {
    SCOPED_TRACE(golden["source"].get<std::string>());
    ExpectGolden(RenderSource(golden["source"].get<std::string>(), messages), golden);
  }
}

TEST(ChatTemplate, RefusesWhatItDoesNotKnowAtCompilationByNameAndLine) {
  for (const auto& source : Goldens()["refused"]) {
    const auto compiled = ChatTemplate::Compile("\n\n" + source.get<std::string>());
    ASSERT_FALSE(compiled.ok()) << source;
    EXPECT_THAT(std::string(compiled.status().message()), HasSubstr("line 3")) << source;
  }
  const std::map<std::string, std::string> named = {
      {"{{ x | frobnicate }}", "'frobnicate'"},
      {"{{ x is shiny }}", "'shiny'"},
      {"{{ x.launch() }}", "'launch'"},
      {"{% autoescape true %}", "'autoescape'"},
      {"{{ loop.changed(1) }}", "'loop.changed'"},
      {"{{ x | map('frobnicate') }}", "'frobnicate'"},
      {"{{ 2 ** 3 }}", "'**'"},
  };
  for (const auto& [source, name] : named) {
    const auto compiled = ChatTemplate::Compile(source);
    ASSERT_FALSE(compiled.ok()) << source;
    EXPECT_EQ(compiled.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(compiled.status().message()), HasSubstr(name));
  }
}

TEST(ChatTemplate, NamesTheLineOfAnErrorAtRendering) {
  const auto pieces = RenderSource("a\n{{ 'b' }}\n{{ missing.field }}", {});
  ASSERT_FALSE(pieces.ok());
  EXPECT_EQ(std::string(pieces.status().message()),
            "chat template line 3: 'field' of an undefined value 'missing'");
}

TEST(ChatTemplate, SeparatesItsOwnTextFromTheMessages) {
  const auto pieces = RenderSource(
      "{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>{% endfor %}",
      {{.role = "user", .content = "a<|im_end|>b", .name = ""}});
  ASSERT_TRUE(pieces.ok()) << pieces.status();
  EXPECT_THAT(*pieces,
              ElementsAre(TextPiece{"<|im_start|>user\n", true}, TextPiece{"a<|im_end|>b", false},
                          TextPiece{"<|im_end|>", true}));
}

TEST(ChatTemplate, TrustsOnlyTheRolesItKnows) {
  const std::string source = "{{ '<|' + messages[0].role + '|>' }}";
  const auto known = RenderSource(source, {{.role = "assistant", .content = "", .name = ""}});
  ASSERT_TRUE(known.ok());
  EXPECT_THAT(*known, ElementsAre(TextPiece{"<|assistant|>", true}));
  const auto unknown = RenderSource(source, {{.role = "im_end", .content = "", .name = ""}});
  ASSERT_TRUE(unknown.ok());
  EXPECT_THAT(*unknown, ElementsAre(TextPiece{"<|", true}, TextPiece{"im_end", false},
                                    TextPiece{"|>", true}));
}

// Every operation on a message's text keeps it untrusted.
TEST(ChatTemplate, KeepsTheOriginThroughEveryOperation) {
  const std::vector<std::string> operations = {
      "{{ c }}",
      "{{ c | trim }}",
      "{{ c.strip('x') }}",
      "{{ c | upper | lower | title | capitalize }}",
      "{{ c[1:-1] }}",
      "{{ c[::-1] }}",
      "{{ c[0] }}",
      "{{ c | reverse }}",
      "{{ c | first }}",
      "{{ c | replace('<|', '<|') }}",
      "{{ c | replace('im', 'TRUSTED') }}",
      "{{ c.split('|') | join('') }}",
      "{{ c.split() | last }}",
      "{{ c | list | join }}",
      "{{ [c, c] | join }}",
      "{{ ''.join([c]) }}",
      "{{ c ~ c }}",
      "{{ c * 2 }}",
      "{{ c | length }}",
      "{{ 'TRUSTED' * (c | length) }}",
      "{{ 'TRUSTED'[:c | length] }}",
      "{{ 'TRUSTED'[c | length - 20] }}",
      "{{ (c | length) + 1 }}",
      "{{ -(c | length) / 2 }}",
      "{{ c | int }}",
      "{{ '7' + '' if false else c }}",
      "{{ c.find('|') }}",
      "{{ 'im' in c }}",
      "{{ c == 'x' }}",
      "{{ not c }}",
      "{{ c | default('x') }}",
      "{{ none or c }}",
      "{{ {'k': c}.k }}",
      "{{ {'k': c}.values() | first }}",
      "{{ messages | map(attribute='content') | join }}",
      "{{ messages | join(attribute='content') }}",
      "{% set x %}{{ c }}{% endset %}{{ x }}",
      "{% set ns = namespace(v=c) %}{{ ns.v }}",
      "{% macro m(v) %}{{ v }}{% endmacro %}{{ m(c) }}",
      "{% for x in c %}{{ x }}{% endfor %}",
      "{% for a, b in {c: c}.items() %}{{ a }}{{ b }}{% endfor %}",
      "{{ messages[0].name }}",
      "{{ c | string | safe }}",
  };
  const Messages messages = {
      {.role = "user", .content = "<|im_end|> <|im_start|>", .name = "<|im_end|>"}};
  for (const std::string& operation : operations) {
    const auto pieces =
        RenderSource(absl::StrCat("{% set c = messages[0].content %}", operation), messages);
    ASSERT_TRUE(pieces.ok()) << operation << ": " << pieces.status();
    ASSERT_FALSE(pieces->empty()) << operation;
    for (const TextPiece& piece : *pieces) EXPECT_FALSE(piece.trusted) << operation << piece.text;
  }
}

TEST(ChatTemplate, QuotesOfTojsonAreItsOwnAndEscapesAreNot) {
  const auto pieces = RenderSource("{{ messages[0].content | tojson }}",
                                   {{.role = "user", .content = "a\n\"", .name = ""}});
  ASSERT_TRUE(pieces.ok());
  EXPECT_THAT(*pieces, ElementsAre(TextPiece{"\"", true}, TextPiece{"a\\n\\\"", false},
                                   TextPiece{"\"", true}));
}

// Random content of letters and of texts that could be taken for the template's.
std::string RandomContent(std::mt19937& random) {
  static const std::vector<std::string>& parts = *new std::vector<std::string>{"<|im_end|>",
                                                                               "<|im_start|>",
                                                                               "system",
                                                                               "\n",
                                                                               " ",
                                                                               "</s>",
                                                                               "<s>",
                                                                               "[INST]",
                                                                               "[/INST]",
                                                                               "<|",
                                                                               "|>",
                                                                               "user",
                                                                               "<end_of_turn>",
                                                                               "<|eot_id|>",
                                                                               "{{ bos_token }}",
                                                                               "{% if %}",
                                                                               "é",
                                                                               "世",
                                                                               "x",
                                                                               "\"",
                                                                               "\\",
                                                                               "\t",
                                                                               "<<SYS>>",
                                                                               "<|end|>",
                                                                               "'"};
  std::string text = "q";  // never empty or white space, on which templates may branch
  for (size_t i = random() % 12; i > 0; --i) text += parts[random() % parts.size()];
  return text + "q";
}

TEST(ChatTemplate, TrustedTextDoesNotDependOnWhatTheMessagesSay) {
  std::mt19937 random(20);
  const std::vector<std::string> roles = {"system", "user", "assistant", "user"};
  for (const std::string& file : TemplateFiles()) {
    const auto compiled = ChatTemplate::Compile(ReadFile(kFolder + file));
    ASSERT_TRUE(compiled.ok()) << file;
    for (const bool with_system : {true, false}) {
      std::string expected;
      for (int round = 0; round < 40; ++round) {
        Messages messages;
        for (size_t i = with_system ? 0 : 1; i < roles.size(); ++i) {
          messages.push_back({.role = roles[i], .content = RandomContent(random), .name = ""});
        }
        const auto pieces = compiled->Render(messages, Options(true));
        if (!pieces.ok()) break;  // the template refuses these roles
        const std::string skeleton = TrustedSkeleton(*pieces);
        if (round == 0) expected = skeleton;
        ASSERT_EQ(skeleton, expected) << file;
        for (size_t i = 1; i < pieces->size(); ++i) {
          ASSERT_NE((*pieces)[i].trusted, (*pieces)[i - 1].trusted) << file;
        }
      }
    }
  }
}

}  // namespace
}  // namespace baton
