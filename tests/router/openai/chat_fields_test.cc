#include "router/openai/chat_fields.h"

#include <string>
#include <utility>

#include "gtest/gtest.h"

#include "common/rpc/status.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;
using ReadChatFields = void (*)(JsonFields&, v1::ChatInput&);

void ReadToolFields(JsonFields& fields, v1::ChatInput& chat) {
  ToolTable table;
  ReadTools(fields, chat, table);
}

// The chat that the function makes of the body, and the field that it blames; empty: none.
std::pair<v1::ChatInput, std::string> ChatOf(ReadChatFields read, const std::string& body) {
  const Json json = Json::parse(body);
  JsonFields fields(json);
  v1::ChatInput chat;
  read(fields, chat);
  const auto violations = FieldViolations(fields.status());
  return {std::move(chat), violations.empty() ? "" : violations.front().field};
}

TEST(ChatFields, RolesAreThoseThatTemplatesKnow) {
  const auto [chat, wrong] = ChatOf(ReadMessages, R"({"messages": [
      {"role": "developer", "content": "a"}, {"role": "user", "name": "n", "content": "b"},
      {"role": "function", "content": "c"},
      {"role": "tool", "tool_call_id": "1", "content": "d"}]})");
  EXPECT_EQ(wrong, "");
  ASSERT_EQ(chat.messages_size(), 4);
  EXPECT_EQ(chat.messages(0).role(), "system");
  EXPECT_EQ(chat.messages(1).name(), "n");
  EXPECT_EQ(chat.messages(2).role(), "tool");
  EXPECT_EQ(chat.messages(3).tool_call_id(), "1");
  EXPECT_EQ(chat.messages(3).content(), "d");
}

TEST(ChatFields, PartsOfTextAreJoinedByANewline) {
  const auto content = [](const std::string& text) {
    const auto [chat, wrong] =
        ChatOf(ReadMessages, R"({"messages": [{"role": "user", "content": )" + text + "}]}");
    return wrong.empty() ? chat.messages(0).content() : wrong;
  };
  EXPECT_EQ(content(R"([{"type": "text", "text": "a"}, {"type": "refusal", "refusal": "b"}])"),
            "a\nb");
  EXPECT_EQ(content("null"), "messages[0].content");
  EXPECT_EQ(content("3"), "messages[0].content");
  EXPECT_EQ(content(R"([{"type": "text"}])"), "messages[0].content[0].text");
  EXPECT_EQ(content(R"(["a"])"), "messages[0].content[0]");
  EXPECT_EQ(content(R"([{"type": "image_url"}])"), "messages[0].content[0].type");
}

TEST(ChatFields, AnAssistantsCallsMayBeWrittenInTheOldWayAndAsObjects) {
  const auto [chat, wrong] = ChatOf(ReadMessages, R"({"messages": [
      {"role": "assistant", "reasoning": "hm", "tool_calls": [
          {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"a\":1}"}},
          {"id": "2", "function": {"name": "g", "arguments": {"b": 2}}}]},
      {"role": "assistant", "function_call": {"name": "h"}}]})");
  EXPECT_EQ(wrong, "");
  ASSERT_EQ(chat.messages_size(), 2);
  EXPECT_EQ(chat.messages(0).reasoning_content(), "hm");
  ASSERT_EQ(chat.messages(0).tool_calls_size(), 2);
  EXPECT_EQ(chat.messages(0).tool_calls(0).arguments(), R"({"a":1})");
  EXPECT_EQ(chat.messages(0).tool_calls(1).id(), "2");
  EXPECT_EQ(chat.messages(0).tool_calls(1).arguments(), R"({"b": 2})");
  ASSERT_EQ(chat.messages(1).tool_calls_size(), 1);
  EXPECT_EQ(chat.messages(1).tool_calls(0).name(), "h");
  EXPECT_EQ(chat.messages(1).tool_calls(0).arguments(), "{}");
}

TEST(ChatFields, ArgumentsInTheHistoryAreTakenWhateverTheyAre) {
  const auto arguments = [](const std::string& json) {
    const auto [chat, wrong] =
        ChatOf(ReadMessages, R"({"messages": [{"role": "assistant", "tool_calls": [
            {"id": "1", "function": {"name": "f", "arguments": )" +
                                 json + "}}]}]}");
    EXPECT_EQ(wrong, "") << json;
    return wrong.empty() ? chat.messages(0).tool_calls(0).arguments() : wrong;
  };
  EXPECT_EQ(arguments("null"), "{}");
  EXPECT_EQ(arguments("[]"), "[]");
  EXPECT_EQ(arguments("3"), "3");
  EXPECT_EQ(arguments(R"("null")"), "null");
  EXPECT_EQ(arguments(R"("")"), "");
  EXPECT_EQ(arguments(R"("\"s\"")"), "\"s\"");
  EXPECT_EQ(arguments(R"("{\"a\": ")"), "{\"a\": ") << "that of a call that was cut";
}

TEST(ChatFields, AnErrorNamesTheFieldFromTheBodyDown) {
  const auto wrong = [](const std::string& message) {
    return ChatOf(ReadMessages,
                  R"({"messages": [{"role": "user", "content": ""}, )" + message + "]}")
        .second;
  };
  EXPECT_EQ(ChatOf(ReadMessages, "{}").second, "messages");
  EXPECT_EQ(wrong("3"), "messages[1]");
  EXPECT_EQ(wrong(R"({"role": "narrator"})"), "messages[1].role");
  EXPECT_EQ(wrong(R"({"role": "assistant", "tool_calls": [{"function": {}}]})"),
            "messages[1].tool_calls[0].function.name");
  EXPECT_EQ(wrong(R"({"role": "assistant", "tool_calls": [{"type": "custom"}]})"),
            "messages[1].tool_calls[0].custom");
  EXPECT_EQ(wrong(R"({"role": "assistant", "tool_calls": [{"type": "web_search"}]})"),
            "messages[1].tool_calls[0].type");
}

TEST(ChatFields, OneCallIsAskedForWhereNoneMayBeBesideItOrFunctionsAre) {
  const std::string tools = R"("tools": [{"type": "function", "function": {"name": "f"}}])";
  const auto single = [](const std::string& body) {
    return ChatOf(ReadToolFields, body).first.tool_choice().single_call();
  };
  EXPECT_FALSE(single("{" + tools + "}"));
  EXPECT_TRUE(single("{" + tools + R"(, "parallel_tool_calls": false})"));
  EXPECT_TRUE(single(R"({"functions": [{"name": "f"}]})"));
}

TEST(ChatFields, VariablesOfTheTemplateKeepTheirTypes) {
  const auto [chat, wrong] = ChatOf(ReadTemplateFields, R"({"add_generation_prompt": false,
      "chat_template_kwargs": {"b": true, "n": 1.5, "s": "x", "l": [1, "y"], "o": {"z": null}}})");
  EXPECT_EQ(wrong, "");
  EXPECT_TRUE(chat.has_add_generation_prompt() && !chat.add_generation_prompt());
  const auto& variables = chat.chat_template_kwargs().fields();
  EXPECT_TRUE(variables.at("b").bool_value());
  EXPECT_EQ(variables.at("n").number_value(), 1.5);
  EXPECT_EQ(variables.at("s").string_value(), "x");
  ASSERT_EQ(variables.at("l").list_value().values_size(), 2);
  EXPECT_EQ(variables.at("l").list_value().values(1).string_value(), "y");
  EXPECT_TRUE(variables.at("o").struct_value().fields().at("z").has_null_value());
  EXPECT_EQ(ChatOf(ReadTemplateFields, R"({"continue_final_message": true})").second,
            "continue_final_message");
}

TEST(ChatFields, ArgumentsThatAreAnObjectAreWrittenWithSpaces) {
  const auto written = [](const std::string& object) {
    return ChatOf(ReadMessages, R"({"messages": [{"role": "assistant", "tool_calls": [{"function":
                  {"name": "f", "arguments": )" +
                                    object + "}}]}]}")
        .first.messages(0)
        .tool_calls(0)
        .arguments();
  };
  EXPECT_EQ(written("{}"), "{}");
  EXPECT_EQ(written(R"({"b":[1,2.0],"a":{"c":null}})"), R"({"b": [1, 2.0], "a": {"c": null}})");
  EXPECT_EQ(written(R"({"s":"a,b:\"c\",\\","t":","})"), R"({"s": "a,b:\"c\",\\", "t": ","})");
}

}  // namespace
}  // namespace baton
