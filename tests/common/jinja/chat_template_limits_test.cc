// Tests that no chat template can run without end, overflow the stack or crash.
#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <nlohmann/json.hpp>

#include "common/jinja/chat_template.h"
#include "tests/common/jinja/chat_template_goldens.h"

namespace baton {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;

TEST(ChatTemplateLimits, EndsEveryRunawayWithAnErrorThatNamesTheBudget) {
  const std::string doubling =
      "{% set ns = namespace(x='abcdefgh') %}{% for i in range(60) %}{% set ns.x = ns.x OP ns.x "
      "%}{% endfor %}";
  const auto with = [&](const std::string& op) {
    std::string source = doubling;
    return source.replace(source.find("OP"), 2, op);
  };
  const std::map<std::string, std::string> runaways = {
      {with("~"), "text"},
      {with("+"), "text"},
      {"{{ 'x' * 1000000000000 }}", "steps"},
      {"{{ 'x' * 1000000 * 1000 }}", "text"},
      {"{{ ([0] * 1000) * 4000000 }}", "memory"},
      {"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}", "steps"},
      {"{{ range(1000000000000) | length }}", "memory"},
      {"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}", "nested"},
      {"{% macro m() %}{{ m() }}{{ m() }}{% endmacro %}{{ m() }}", "nested"},
      {"{% set ns = namespace(x=[1]) %}{% for i in range(1000) %}{% set ns.x = [ns.x] %}{% endfor "
       "%}",
       "nested"},
      {"{% set ns = namespace(x=[1]) %}{% for i in range(50) %}{% set ns.x = [ns.x, ns.x] %}{% "
       "endfor %}{{ ns.x | tojson }}",
       "steps"},
      {"{% set ns = namespace(x=[1], y=[1]) %}{% for i in range(50) %}{% set ns.x = [ns.x, ns.x] "
       "%}{% set ns.y = [ns.y, ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
       "steps"},
      {"{% set x = 'x' * 1000000 %}{% for i in range(100) %}{{ x }}{% endfor %}", "text"},
      {"{% set x = 'x' * 1000000 %}{{ (x | replace('x', x)) | length }}", "text"},
      {"{% set x = 'x' * 1000000 %}{% for i in range(1000000) %}{% if 'y' in x %}{% endif %}{% "
       "endfor %}",
       "steps"},
      {"{{ (('x,' * 100000).split(',') | join('y' * 1000)) | length }}", "text"},
  };
  for (const auto& [source, budget] : runaways) {
    const auto pieces = RenderSource(source, {});
    ASSERT_FALSE(pieces.ok()) << source;
    EXPECT_EQ(pieces.status().code(), absl::StatusCode::kResourceExhausted) << source;
    // How fast the machine is decides whether it runs out of steps or of CPU time.
    const std::string message(pieces.status().message());
    EXPECT_THAT(message, AnyOf(HasSubstr(budget), HasSubstr("CPU time"))) << source;
  }
}

std::string Repeat(const std::string& text, int times) {
  std::string repeated;
  for (int i = 0; i < times; ++i) repeated += text;
  return repeated;
}

TEST(ChatTemplateLimits, RefusesDeepNestingInsteadOfOverflowingTheStack) {
  constexpr int kDepth = 30000;
  const std::vector<std::string> sources = {
      "{{ " + Repeat("(", kDepth) + "1" + Repeat(")", kDepth) + " }}",
      "{{ " + Repeat("[", kDepth) + Repeat("]", kDepth) + " }}",
      "{{ " + Repeat("{1:", kDepth) + "1" + Repeat("}", kDepth) + " }}",
      "{{ " + Repeat("not ", kDepth) + "1 }}",
      "{{ " + Repeat("-", kDepth) + "1 }}",
      "{{ 1" + Repeat(" + 1", kDepth) + " }}",
      "{{ 1" + Repeat(" ~ 1", kDepth) + " }}",
      "{{ x" + Repeat(".x", kDepth) + " }}",
      "{{ x" + Repeat("[0]", kDepth) + " }}",
      "{{ x" + Repeat("|trim", kDepth) + " }}",
      "{{ x" + Repeat(" and x", kDepth) + " }}",
      "{{ x" + Repeat(" if x else x", kDepth) + " }}",
      "{{ x" + Repeat(" if x", kDepth) + " }}",
      "{{ x" + Repeat(" is defined", kDepth / 2) + " }}",
      "{{ " + Repeat("x is eq ", kDepth / 2) + "1 }}",
      "{{ " + Repeat("x[", kDepth) + "0" + Repeat("]", kDepth) + " }}",
      "{{ " + Repeat("namespace(a=", 20000) + "0" + Repeat(")", 20000) + " }}",
      Repeat("{% if x %}", 20000),
      Repeat("{% for x in y %}", 15000),
      Repeat("{% set x %}", 20000),
      Repeat("{% generation %}", 15000),
  };
  for (const std::string& source : sources) {
    const auto compiled = ChatTemplate::Compile(source);
    ASSERT_FALSE(compiled.ok()) << source.substr(0, 40);
    EXPECT_EQ(compiled.status().code(), absl::StatusCode::kInvalidArgument);
  }
  EXPECT_TRUE(ChatTemplate::Compile("{{ 1" + Repeat(" + 1", 150) + " }}").ok());
  EXPECT_TRUE(
      ChatTemplate::Compile("{% if a %}" + Repeat("{% elif a %}", 5000) + "{% endif %}").ok());
}

TEST(ChatTemplateLimits, RefusesATemplateThatIsTooLarge) {
  const auto compiled = ChatTemplate::Compile(std::string(size_t{1} << 20, 'x'));
  EXPECT_EQ(compiled.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ChatTemplateLimits, TakesLongConversationsInStride) {
#if defined(__SANITIZE_ADDRESS__)  // where time is worth less
  constexpr int kMessages = 400;
#else
  constexpr int kMessages = 4000;
#endif
  Messages messages;
  for (int i = 0; i < kMessages; ++i) {
    messages.push_back({.role = i % 2 == 0 ? "user" : "assistant", .content = "hello", .name = ""});
  }
  messages.push_back({.role = "user", .content = std::string(kMessages << 10, 'a'), .name = ""});
  for (const std::string& file : TemplateFiles()) {
    const auto compiled = ChatTemplate::Compile(ReadFile(kFolder + file));
    ASSERT_TRUE(compiled.ok());
    const auto pieces = compiled->Render(messages, Options(true));
    EXPECT_TRUE(pieces.ok()) << file << ": " << pieces.status();
  }
}

// Mutated templates neither crash nor run without end, and what they write keeps its origin.
TEST(ChatTemplateLimits, SurvivesRandomMutationsOfTemplates) {
  std::mt19937 random(7);
  std::vector<std::string> sources;
  for (const std::string& file : TemplateFiles()) sources.push_back(ReadFile(kFolder + file));
  for (const auto& golden : Goldens()["snippets"]) sources.push_back(golden["source"]);
  const std::string secret = "\xF0\x9F\x94\x91";
  const Messages messages = {{.role = "user", .content = secret, .name = secret},
                             {.role = "assistant", .content = secret + secret, .name = ""}};
  int rendered = 0;
  for (int round = 0; round < 20000; ++round) {
    std::string source = sources[random() % sources.size()];
    for (size_t change = 1 + random() % 4; change > 0 && !source.empty(); --change) {
      const size_t at = random() % source.size();
      switch (random() % 4) {
        case 0:
          source[at] = static_cast<char>(random());
          break;
        case 1:
          source.erase(at, 1 + random() % 8);
          break;
        case 2:
          source.insert(at, source.substr(random() % source.size(), random() % 16));
          break;
        default:
          source.insert(at, 1, "{}%()[]|.,'\"-+*~:0"[random() % 18]);
      }
    }
    const auto pieces = RenderSource(source, messages);
    if (!pieces.ok()) continue;
    ++rendered;
    for (const TextPiece& piece : *pieces) {
      EXPECT_FALSE(piece.trusted && absl::StrContains(piece.text, secret)) << source;
    }
  }
  EXPECT_GT(rendered, 1000);  // the mutations are mild enough to reach the interpreter
}

}  // namespace
}  // namespace baton
