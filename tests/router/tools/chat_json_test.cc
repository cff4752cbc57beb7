#include "router/tools/chat_json.h"

#include <fstream>
#include <map>
#include <set>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/civil_time.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include <nlohmann/json.hpp>

#include "router/tools/struct_json.h"
#include "tests/router/tools/sample_forms.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;
using ::testing::HasSubstr;

// A chat in which the model called f, was told the result, and is asked again.
v1::ChatInput Conversation() {
  v1::ChatInput chat = SampleChat();
  const auto add = [&](const std::string& role, const std::string& content) {
    v1::ChatMessage& message = *chat.add_messages();
    message.set_role(role);
    message.set_content(content);
    return &message;
  };
  add("system", "Be brief.");
  add("user", "Ask f.");
  v1::ChatMessage& answer = *add("assistant", "");
  answer.set_reasoning_content("hm");
  v1::ToolCall& call = *answer.add_tool_calls();
  call.set_id("an id of 24 characters!!");
  call.set_name("f");
  call.set_arguments(R"({"s":"needle"})");
  add("tool", "sunny")->set_tool_call_id("an id of 24 characters!!");
  add("user", "And now?");
  return chat;
}

std::string Rendered(const ChatTemplate& chat_template, const ChatJson& chat,
                     const ChatTemplateOptions& options) {
  const auto pieces = chat_template.Render(chat, options);
  if (!pieces.ok()) return pieces.status().ToString();
  std::string text;
  for (const TextPiece& piece : *pieces) text += piece.text;
  return text;
}

TEST(ChatJson, HasOpenAisShape) {
  const ChatJson json = ChatJsonOf(Conversation(), {.kind = ToolFormKind::kHermes});
  EXPECT_EQ(json.messages[2],
            Json::parse(R"({"role":"assistant","content":"","reasoning_content":"hm","tool_calls":[
              {"id":"an id of 24 characters!!","type":"function",
               "function":{"name":"f","arguments":{"s":"needle",
                                                   "\u0001json":"{\"s\":\"needle\"}"}}}]})"));
  EXPECT_EQ(json.messages[3], Json::parse(R"({"role":"tool","content":"sunny","name":"f",
                            "tool_call_id":"an id of 24 characters!!"})"));
  EXPECT_EQ(json.tools[1], Json::parse(R"({"type":"function","function":{"name":"g",
              "description":"","parameters":{"type":"object","properties":{}}}})"));
  EXPECT_EQ(ChatJsonOf(Conversation(), {.kind = ToolFormKind::kHermes, .text_arguments = true})
                .messages[2]["tool_calls"][0]["function"]["arguments"],
            R"({"s":"needle"})");
}

TEST(ChatJson, ArgumentsThatAreNoObjectStayText) {
  v1::ChatInput chat = Conversation();
  chat.mutable_messages(2)->mutable_tool_calls(0)->set_arguments("{\"s\": \"cu");
  EXPECT_EQ(ChatJsonOf(chat, {.kind = ToolFormKind::kHermes})
                .messages[2]["tool_calls"][0]["function"]["arguments"],
            "{\"s\": \"cu");
}

// A template that walks the arguments of calls, as Qwen3-Coder's and Nemotron's do.
constexpr char kWalks[] =
    "{{ tools }}<tool_call>\\n<function={% for m in messages %}{% for c in m.tool_calls or [] %}"
    "{{ c.function.name }}({% for k, v in c.function.arguments | items %}{{ k }}={{ v }};{% endfor "
    "%})"
    "{% endfor %}{% endfor %}";
constexpr char kPrints[] =
    "{{ tools }}<tool_call>{\"name\"</tool_call>{% for m in messages %}{% for c in m.tool_calls or "
    "[] %}"
    "{{ c.function.name }}({% if c.function.arguments is string %}{{ c.function.arguments }}"
    "{% else %}{{ c.function.arguments | tojson }}{% endif %}){% endfor %}{% endfor %}";

// How a template renders a call of f with these arguments.
std::string RenderedCall(const char* source, const std::string& arguments) {
  const auto compiled = ChatTemplate::Compile(source);
  EXPECT_TRUE(compiled.ok()) << compiled.status();
  const ChatShape shape = ShapeOf(*compiled, ToolForm::OfTemplate(source).kind(), {});
  v1::ChatInput chat = Conversation();
  chat.mutable_messages(2)->mutable_tool_calls(0)->set_arguments(arguments);
  const std::string text = Rendered(*compiled, ChatJsonOf(chat, shape), {});
  const size_t begin = text.rfind("f(");
  return begin == std::string::npos ? text : text.substr(begin);
}

TEST(ChatJson, ATemplateThatWalksArgumentsGetsAnObjectWhateverTheyAre) {
  EXPECT_EQ(RenderedCall(kWalks, R"({"s": "a", "n": 1})"), "f(s=a;n=1;)");
  for (const char* none : {"", " ", "{}", "null", " null ", "[]", "\"\""}) {
    EXPECT_EQ(RenderedCall(kWalks, none), "f()") << none;
  }
  for (const char* text : {"\"s\"", "[1]", "3", "true", "{\"s\": \"cu", "cut", "{\"s\": 1}}"}) {
    EXPECT_EQ(RenderedCall(kWalks, text), absl::StrCat("f(INVALID_JSON=", text, ";)"));
  }
}

TEST(ChatJson, ATemplateThatPrintsTextsKeepsTheModelsOwnBytes) {
  for (const char* text : {"\"s\"", "[]", "3", "{\"s\": \"cu", "cut", "{ \"s\" :1}}"}) {
    EXPECT_EQ(RenderedCall(kPrints, text), absl::StrCat("f(", text, ")"));
  }
  EXPECT_EQ(RenderedCall(kPrints, "null"), "f({})");
  EXPECT_EQ(RenderedCall(kPrints, ""), "f({})");
}

// None of the templates that render a call without arguments fails for what others left in its
// place.
TEST(ChatJson, EachPublicTemplateRendersArgumentsThatAreNoObject) {
  std::ifstream file(absl::StrCat(BATON_TEST_DATA, "/templates/public.jsonl"));
  ChatTemplateOptions options{.bos_token = "<s>", .eos_token = "</s>"};
  options.today = absl::CivilDay(2026, 7, 6);
  int rendered = 0;
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    if (!json.contains("template")) continue;
    const std::string source = json["template"];
    const auto compiled = ChatTemplate::Compile(source);
    if (!compiled.ok()) continue;
    const ChatShape shape = ShapeOf(*compiled, ToolForm::OfTemplate(source).kind(), options);
    v1::ChatInput chat = Conversation();
    const auto renders = [&](const std::string& arguments) {
      chat.mutable_messages(2)->mutable_tool_calls(0)->set_arguments(arguments);
      return compiled->Render(ChatJsonOf(chat, shape), options).status();
    };
    if (!renders("{}").ok()) continue;
    ++rendered;
    for (const char* arguments : {"null", "[]", "\"s\"", "3", "", "{\"s\": \"cu", "cut"}) {
      EXPECT_TRUE(renders(arguments).ok())
          << json["name"] << " " << arguments << ": " << renders(arguments);
    }
  }
  EXPECT_GE(rendered, 40);
}

TEST(ChatJson, ToolsAreLeftOutWhereTheModelIsNotToKnowThem) {
  v1::ChatInput chat = Conversation();
  chat.mutable_tool_choice()->set_mode(v1::ToolChoice::MODE_NONE);
  EXPECT_TRUE(ChatJsonOf(chat, {.kind = ToolFormKind::kHermes}).tools.is_null());
  EXPECT_EQ(ChatJsonOf(chat, {}).messages[0]["content"], "Be brief.");
}

TEST(ChatJson, MistralsIdsHaveNineLettersAndDigits) {
  const ChatJson json = ChatJsonOf(Conversation(), {.kind = ToolFormKind::kMistral});
  const std::string id = json.messages[2]["tool_calls"][0]["id"];
  EXPECT_THAT(id, ::testing::MatchesRegex("[A-Za-z0-9]{9}"));
  EXPECT_EQ(json.messages[3]["tool_call_id"], id);
}

TEST(ChatJson, TheGenericFormIsTextThatAnyTemplateRenders) {
  const ChatJson json = ChatJsonOf(Conversation(), {});
  EXPECT_TRUE(json.tools.is_null());
  ASSERT_EQ(json.messages.size(), 4u);  // the result and the question are one message
  const std::string system = json.messages[0]["content"];
  EXPECT_THAT(system, ::testing::StartsWith("Be brief.\n\nYou can call tools."));
  EXPECT_THAT(system, HasSubstr(R"({"name":"f","description":"","parameters":{"type":"object")"));
  EXPECT_THAT(system, HasSubstr(R"({"tool_calls": [{"name": "the tool's name")"));
  EXPECT_EQ(json.messages[2]["content"],
            R"({"tool_calls": [{"name": "f", "arguments": {"s":"needle"}}]})");
  EXPECT_EQ(json.messages[3]["role"], "user");
  EXPECT_EQ(
      json.messages[3]["content"],
      R"({"tool_response":{"name":"f","content":"sunny","tool_call_id":"an id of 24 characters!!"}})"
      "\nAnd now?");
  // Without a system message of its own, and where the template has none.
  v1::ChatInput chat = Conversation();
  chat.mutable_messages()->DeleteSubrange(0, 1);
  EXPECT_EQ(ChatJsonOf(chat, {}).messages[0]["role"], "system");
  const Json first = ChatJsonOf(chat, {.has_system = false}).messages[0];
  EXPECT_EQ(first["role"], "user");
  EXPECT_THAT(std::string(first["content"]), ::testing::EndsWith("\n\nAsk f."));
}

TEST(ChatJson, ASystemsTextBehindAResultOfTheGenericFormFollowsItsJson) {
  v1::ChatInput chat = Conversation();
  v1::ChatMessage& system = *chat.add_messages();
  system.set_role("system");
  system.set_content("Be kind.");
  chat.mutable_messages()->SwapElements(4, 5);  // the user's question comes last
  const ChatJson json = ChatJsonOf(chat, {.later_system = LaterSystem::kLost});
  EXPECT_THAT(std::string(json.messages[3]["content"]),
              ::testing::EndsWith("!!\"}}\n\nBe kind.\nAnd now?"));
  EXPECT_EQ(ChatJsonOf(chat, {}).messages[4]["role"], "system");
}

TEST(ChatJson, ArgumentsOfCallsKeepTheirBytes) {
  v1::ChatInput chat = Conversation();
  const std::string bytes = R"({ "s":"na\u00efve", "n" : 1.50,"e":1e3 })";
  chat.mutable_messages(2)->mutable_tool_calls(0)->set_arguments(bytes);
  for (const ToolFormKind kind :
       {ToolFormKind::kGeneric, ToolFormKind::kGranite, ToolFormKind::kPhi4}) {
    EXPECT_THAT(std::string(ChatJsonOf(chat, {.kind = kind}).messages[2]["content"]),
                HasSubstr(R"({"name": "f", "arguments": )" + bytes + "}"));
  }
  const auto arguments = [&] {
    return ChatJsonOf(chat, {.kind = ToolFormKind::kHermes, .text_arguments = true})
        .messages[2]["tool_calls"][0]["function"]["arguments"];
  };
  EXPECT_EQ(arguments(), bytes);
  const auto compiled = ChatTemplate::Compile(
      "{% for c in messages[2].tool_calls %}{{ c.function.arguments | tojson }}"
      "{{ c | tojson }}{{ c.function.arguments | length }}"
      "{{ c.function.arguments | tojson(indent=1) }}{% endfor %}");
  ASSERT_TRUE(compiled.ok()) << compiled.status();
  EXPECT_EQ(Rendered(*compiled, ChatJsonOf(chat, {.kind = ToolFormKind::kHermes}), {}),
            bytes +
                R"({"id": "an id of 24 characters!!", "type": "function", )"
                R"("function": {"name": "f", "arguments": )" +
                bytes + "}}3{\n \"s\": \"na\u00efve\",\n \"n\": 1.5,\n \"e\": 1000.0\n}");
  for (const char* empty : {"", " \n", "{ }"}) {
    chat.mutable_messages(2)->mutable_tool_calls(0)->set_arguments(empty);
    EXPECT_EQ(arguments(), "{}");
  }
}

// Each template that Baton compiles and that can render this conversation puts the tools, the call
// and its result into the prompt.
TEST(ChatJson, EachPublicTemplateRendersToolsCallsAndResults) {
  std::ifstream file(absl::StrCat(BATON_TEST_DATA, "/templates/public.jsonl"));
  // Some templates want the assistant to say something of a result, and some show no schema as JSON.
  v1::ChatInput conversation = Conversation();
  conversation.mutable_tools(1)->set_description("a clear sky");
  conversation.mutable_messages(4)->set_role("assistant");
  conversation.mutable_messages(4)->set_content("It is sunny.");
  conversation.add_messages()->set_role("user");
  conversation.mutable_messages(5)->set_content("And now?");
  std::set<std::string> wants_text;
  std::map<std::string, std::string> broken;
  ChatTemplateOptions options{.bos_token = "<s>", .eos_token = "</s>"};
  options.today = absl::CivilDay(2026, 7, 6);
  for (std::string line; std::getline(file, line);) {
    const auto json = nlohmann::json::parse(line);
    if (!json.contains("template")) continue;
    const std::string name = json["name"];
    const std::string source = json["template"];
    const auto compiled = ChatTemplate::Compile(source);
    if (!compiled.ok()) {
      broken[name] = compiled.status().ToString();
      continue;
    }
    const ChatShape shape = ShapeOf(*compiled, ToolForm::OfTemplate(source).kind(), options);
    if (shape.text_arguments) wants_text.insert(name);
    const std::string text = Rendered(*compiled, ChatJsonOf(conversation, shape), options);
    // As the call came, without white space.
    const bool is_xml = shape.kind == ToolFormKind::kQwenXml;
    if (!is_xml && !absl::StrContains(text, R"({"s":"needle"})")) {
      absl::StrAppend(&broken[name], "arguments are written anew: ", text);
    }
    for (const char* wanted : {"needle", "sunny", "And now?", "a clear sky"}) {
      if (!absl::StrContains(text, wanted))
        absl::StrAppend(&broken[name], "no ", wanted, ": ", text);
    }
    for (const char* unwanted : {"'s': 'needle'", "\\\"s\\\":"}) {
      if (absl::StrContains(text, unwanted) && shape.kind != ToolFormKind::kGeneric) {
        absl::StrAppend(&broken[name], unwanted, ": ", text);
      }
    }
  }
  EXPECT_THAT(wants_text, ::testing::IsEmpty());
  // One needs tools always, as the template for chats with them, and one has an unsupported tag.
  for (const char* name : {"CohereForAI-c4ai-command-r-plus-tool_use.jinja",
                           "fireworks-ai-llama-3-firefunction-v2.jinja"}) {
    EXPECT_EQ(broken.erase(name), 1u) << name;
  }
  for (const auto& [name, why] : broken) ADD_FAILURE() << name << ": " << why;
}

TEST(StructJson, HasSortedKeysAndWholeNumbers) {
  google::protobuf::Struct fields;
  (*fields.mutable_fields())["b"].set_number_value(512);
  (*fields.mutable_fields())["a"].set_number_value(0.5);
  (*fields.mutable_fields())["c"].mutable_list_value()->add_values()->set_bool_value(true);
  (*fields.mutable_fields())["d"].set_null_value(google::protobuf::NULL_VALUE);
  (*(*fields.mutable_fields())["e"].mutable_struct_value()->mutable_fields())["f"].set_string_value(
      "g");
  (*fields.mutable_fields())["h"].set_number_value(1e300);
  EXPECT_EQ(JsonOf(fields).dump(),
            R"({"a":0.5,"b":512,"c":[true],"d":null,"e":{"f":"g"},"h":1e+300})");
}

}  // namespace
}  // namespace baton
