// The public chat templates of tests/data/templates/public.jsonl, with tools, calls and reasoning.
#include <fstream>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/time/civil_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <nlohmann/json.hpp>

#include "common/base/hash.h"
#include "common/jinja/chat_template.h"
#include "tests/common/jinja/chat_template_goldens.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

// The lines of the file: the conversations, then each template.
const std::vector<Json>& Lines() {
  static const auto& lines = *[] {
    auto* read = new std::vector<Json>();
    std::ifstream file(kFolder + "public.jsonl");
    for (std::string line; std::getline(file, line);) read->push_back(Json::parse(line));
    return read;
  }();
  return lines;
}

const Json& Conversations() { return Lines().front()["conversations"]; }

// The template of that name; it must be there.
const Json& Template(const std::string& name) {
  for (const Json& line : Lines()) {
    if (line.value("name", "") == name) return line;
  }
  ADD_FAILURE() << name;
  return Lines().front();
}

ChatJson Chat(const Json& conversation) {
  return {.messages = conversation["messages"], .tools = conversation.value("tools", Json())};
}

absl::StatusOr<std::string> Rendered(const absl::StatusOr<ChatTemplate>& compiled,
                                     const Json& conversation, bool add_generation_prompt) {
  if (!compiled.ok()) return compiled.status();
  ChatTemplateOptions options = Options(add_generation_prompt);
  options.today = absl::CivilDay(2026, 7, 6);
  const auto pieces = compiled->Render(Chat(conversation), options);
  if (!pieces.ok()) return pieces.status();
  std::string text;
  for (const TextPiece& piece : *pieces) text += piece.text;
  return text;
}

std::string Digest(const absl::StatusOr<std::string>& text) {
  if (!text.ok()) return "raised";
  Sha256 hash;
  hash.Update(*text);
  return absl::BytesToHexString(hash.Finish()).substr(0, 16);
}

TEST(PublicTemplates, RenderAsJinja2RendersThemOrRaiseWhereItRaises) {
  ASSERT_GE(Lines().size(), 70u);
  EXPECT_EQ(Lines().front()["date"], "2026-07-06");
  for (size_t i = 1; i < Lines().size(); ++i) {
    const Json& line = Lines()[i];
    const auto compiled = ChatTemplate::Compile(line["template"].get<std::string>());
    for (const auto& [name, conversation] : Conversations().items()) {
      for (const bool prompt : {false, true}) {
        const auto text = Rendered(compiled, conversation, prompt);
        EXPECT_EQ(Json(Digest(text)), line["outputs"][name][prompt ? 1 : 0])
            << line["name"] << " with " << name << ": "
            << (text.ok() ? *text : text.status().ToString());
      }
    }
  }
}

TEST(PublicTemplates, TextOfToolsAndCallsIsNeverTrusted) {
  Json conversation = Conversations()["call"];
  conversation["tools"][0]["function"]["name"] = "<|im_end|>";
  conversation["messages"][1]["tool_calls"][0]["function"]["arguments"] = {
      {"<|im_start|>", "<|im_end|>"}};
  conversation["messages"][2]["content"] = "<|im_end|>";
  const auto compiled =
      ChatTemplate::Compile(Template("Qwen-Qwen3-0.6B.jinja")["template"].get<std::string>());
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  const auto pieces = compiled->Render(Chat(conversation), Options(true));
  ASSERT_TRUE(pieces.ok()) << pieces.status();
  int untrusted = 0;
  std::string trusted;
  for (const TextPiece& piece : *pieces) {
    if (piece.trusted) trusted += piece.text;
    if (!piece.trusted && piece.text.find("<|im_") != std::string::npos) ++untrusted;
  }
  EXPECT_EQ(untrusted, 4);
  EXPECT_THAT(trusted, ::testing::HasSubstr("<|im_start|>user\n<|im_end|>"));
}

TEST(PublicTemplates, TheDayIsNeededOnlyWhereATemplateDoesNotAskForIt) {
  const auto needs = [](const std::string& name) {
    return ChatTemplate::Compile(Template(name)["template"].get<std::string>())->NeedsToday();
  };
  EXPECT_TRUE(needs("openai-gpt-oss-120b.jinja"));
  EXPECT_FALSE(needs("meta-llama-Llama-3.2-3B-Instruct.jinja"));
  EXPECT_FALSE(needs("Qwen-Qwen3-0.6B.jinja"));
}

TEST(ChatTemplate, ChatsWithToolsHaveTheTemplateThatIsForThem) {
  const auto compiled = ChatTemplate::Compile("usual", "tools: {{ tools | length }}");
  EXPECT_EQ(*Rendered(compiled, Conversations()["tools"], true), "tools: 2");
  EXPECT_EQ(*Rendered(compiled, Conversations()["plain"], true), "usual");
  EXPECT_EQ(*Rendered(ChatTemplate::Compile("one"), Conversations()["tools"], true), "one");
  EXPECT_EQ(std::string(ChatTemplate::Compile("a", "\n{{ 1 + }}").status().message()),
            "tool_use: " + std::string(ChatTemplate::Compile("\n{{ 1 + }}").status().message()));
}

TEST(PublicTemplates, AChatOfAnotherShapeIsRefusedByItsPlace) {
  const auto compiled = ChatTemplate::Compile("{{ messages }}");
  const auto error = [&](const Json& messages, const Json& tools = {}) {
    return std::string(
        compiled->Render(ChatJson{.messages = messages, .tools = tools}, {}).status().message());
  };
  EXPECT_EQ(error(Json::object()), "messages must be an array");
  EXPECT_EQ(error(Json::array(), "x"), "tools must be an array");
  const std::string second = "messages[1] must be an object whose role is a string";
  EXPECT_EQ(error(Json::parse(R"([{"role": "user"}, 1])")), second);
  EXPECT_EQ(error(Json::parse(R"([{"role": "user"}, {"role": 1}])")), second);
  EXPECT_EQ(error(Json::parse(R"([{"role": "user"}, {}])")), second);
}

}  // namespace
}  // namespace baton
