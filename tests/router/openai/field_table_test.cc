#include "router/openai/field_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <set>
#include <sstream>
#include <tuple>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/rpc/status.h"
#include "router/openai/chat_request.h"
#include "router/openai/completion_request.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

struct Route {
  const char* name;
  absl::Span<const FieldHandling> table;
  absl::StatusOr<ApiRequest> (*read)(absl::string_view, const ApiContext&);
  Json body;  // the least that is a request
};

std::vector<Route> Routes() {
  return {{"/v1/chat/completions", ChatFieldTable(), ReadChatRequest,
           Json::parse(R"({"messages": [{"role": "user", "content": "a"}]})")},
          {"/v1/completions", CompletionFieldTable(), ReadCompletionRequest,
           Json::parse(R"({"prompt": "a"})")}};
}

absl::StatusOr<ApiRequest> Read(const Route& route, const Json& body) {
  static const ToolForm& form = *new ToolForm(ToolForm::OfTemplate(""));
  return route.read(body.dump(), {.model = "m", .request_id = "r", .tool_form = form});
}

// The first violation's field, or "".
std::string Blamed(const absl::Status& status) {
  const auto violations = FieldViolations(status);
  return violations.empty() ? "" : violations.front().field;
}

TEST(FieldTable, EveryServedFieldIsReadAndNamedWhereItIsWrong) {
  for (const Route& route : Routes()) {
    for (const FieldHandling& field : route.table) {
      if (field.handling != Handling::kServed) continue;
      Json body = route.body;
      body[field.name] = Json::parse(R"([{"?": [{}]}])");
      const absl::Status status = Read(route, body).status();
      EXPECT_TRUE(absl::IsInvalidArgument(status)) << route.name << " " << field.name;
      EXPECT_THAT(Blamed(status), ::testing::StartsWith(field.name)) << route.name;
    }
  }
}

TEST(FieldTable, EveryToleratedFieldMayHaveAnyValueAndChangesNothing) {
  for (const Route& route : Routes()) {
    Json body = route.body;
    body["of_nobody"] = 1;
    for (const FieldHandling& field : route.table) {
      if (field.handling == Handling::kTolerated) body[field.name] = Json::parse(R"([{"?": 1}])");
    }
    const auto request = Read(route, body);
    ASSERT_TRUE(request.ok()) << request.status();
    EXPECT_EQ(request->prompts[0].SerializeAsString(),
              Read(route, route.body)->prompts[0].SerializeAsString());
  }
}

TEST(FieldTable, EveryRefusedFieldIsNamedUnlessItAsksForNothing) {
  for (const Route& route : Routes()) {
    for (const FieldHandling& field : route.table) {
      if (field.handling != Handling::kRefused) continue;
      Json body = route.body;
      body[field.name] = 3;
      EXPECT_EQ(Blamed(Read(route, body).status()), field.name) << route.name;
      body[field.name] = Json::parse(field.harmless);
      EXPECT_TRUE(Read(route, body).ok()) << route.name << " " << field.name;
    }
  }
}

TEST(FieldTable, NullIsAbsentInEveryFieldAloneAndInAllTogether) {
  for (const Route& route : Routes()) {
    const std::string expected = Read(route, route.body)->prompts[0].SerializeAsString();
    Json all = route.body;
    for (const FieldHandling& field : route.table) {
      if (route.body.contains(field.name)) continue;
      Json body = route.body;
      body[field.name] = nullptr;
      all[field.name] = nullptr;
      const auto request = Read(route, body);
      ASSERT_TRUE(request.ok()) << field.name << " " << request.status();
      EXPECT_EQ(request->prompts[0].SerializeAsString(), expected) << field.name;
    }
    ASSERT_TRUE(Read(route, all).ok());
    EXPECT_EQ(Read(route, all)->prompts[0].SerializeAsString(), expected);
  }
}

TEST(FieldTable, NoFieldStandsTwice) {
  for (const Route& route : Routes()) {
    std::set<std::string> names;
    for (const FieldHandling& field : route.table) {
      EXPECT_TRUE(names.insert(field.name).second) << field.name;
    }
  }
}

TEST(FieldTable, IsTheOneOfTheDocument) {
  using Row = std::tuple<std::string, std::string, std::string>;
  std::set<Row> documented, coded;
  std::ifstream file(absl::StrCat(BATON_TEST_DATA, "/../../docs/openai.md"));
  std::string route;
  for (std::string line; std::getline(file, line);) {
    if (absl::StartsWith(line, "## ")) route = line.substr(3);
    if (!absl::StartsWith(line, "| `")) continue;
    const std::vector<std::string> cells = absl::StrSplit(line, " | ");
    ASSERT_GE(cells.size(), 3u) << line;
    documented.insert({route, cells[0].substr(3, cells[0].size() - 4), cells[2]});
  }
  const char* const names[] = {"served", "tolerated", "refused"};
  for (const Route& known : Routes()) {
    for (const FieldHandling& field : known.table) {
      coded.insert({known.name, field.name, names[static_cast<int>(field.handling)]});
    }
  }
  EXPECT_EQ(documented, coded);
}

// The fields that `message` and those inside it have set, such as "SamplingParams.top_p".
void CollectFields(const google::protobuf::Message& message, std::set<std::string>& names) {
  std::vector<const google::protobuf::FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const auto* field : fields) {
    names.insert(absl::StrCat(message.GetDescriptor()->name(), ".", field->name()));
    if (field->cpp_type() != google::protobuf::FieldDescriptor::CPPTYPE_MESSAGE) continue;
    if (field->is_map()) continue;
    const auto& reflection = *message.GetReflection();
    if (!field->is_repeated()) {
      CollectFields(reflection.GetMessage(message, field), names);
      continue;
    }
    for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
      CollectFields(reflection.GetRepeatedMessage(message, field, i), names);
    }
  }
}

constexpr const char* kChatBodies[] = {
    R"({"messages": [
          {"role": "user", "content": "a", "name": "n"},
          {"role": "assistant", "reasoning_content": "r",
           "tool_calls": [{"id": "i", "type": "function",
                           "function": {"name": "f", "arguments": "{}"}}]},
          {"role": "tool", "content": "c", "tool_call_id": "i"}],
        "add_generation_prompt": true, "chat_template_kwargs": {"x": [1, true, null, "s", {}]},
        "tools": [{"type": "function", "function":
                   {"name": "f", "description": "d", "parameters": {"type": "object"}}}],
        "tool_choice": {"type": "function", "function": {"name": "f"}},
        "parallel_tool_calls": false, "model": "m", "temperature": 0.5, "top_p": 0.5, "top_k": 3,
        "min_p": 0.1, "presence_penalty": 1, "frequency_penalty": 1, "repetition_penalty": 2,
        "max_tokens": 3, "min_tokens": 1, "n": 2, "seed": -1, "stop": ["x"],
        "stop_token_ids": [1], "ignore_eos": true, "include_stop_str_in_output": true,
        "skip_special_tokens": false, "logprobs": true, "top_logprobs": 2,
        "logit_bias": {"5": -1}, "bad_words": ["b"], "truncate_prompt_tokens": 4, "stream": true,
        "priority": 1, "cache_salt": "s", "user": "u", "speculative": "none",
        "return_token_ids": true, "add_special_tokens": false,
        "response_format": {"type": "json_object"}})",
    R"({"messages": [{"role": "user", "content": "a"}], "guided_json": {"type": "string"}})",
    R"({"messages": [{"role": "user", "content": "a"}], "guided_regex": "a"})",
    R"({"messages": [{"role": "user", "content": "a"}], "guided_grammar": "root ::= \"a\""})",
    R"({"messages": [{"role": "user", "content": "a"}], "guided_choice": ["a"]})",
};
constexpr const char* kCompletionBodies[] = {
    R"({"prompt": "a", "echo": true, "logprobs": 1})",
    R"({"prompt": [1, 2]})",
};

TEST(FieldTable, EveryFieldOfBatonsRequestIsReachedFromHttp) {
  std::set<std::string> reached;
  const std::vector<Route> routes = Routes();
  for (const char* body : kChatBodies) {
    const auto request = Read(routes[0], Json::parse(body));
    ASSERT_TRUE(request.ok()) << request.status();
    CollectFields(request->prompts[0], reached);
  }
  for (const char* body : kCompletionBodies) {
    const auto request = Read(routes[1], Json::parse(body));
    ASSERT_TRUE(request.ok()) << request.status();
    CollectFields(request->prompts[0], reached);
  }
  const std::set<std::string> exceptions = {
      "ResponseFormat.structural_tags",  // Baton makes them of tools
  };
  for (const auto* message : {v1::GenerateRequest::descriptor(), v1::SamplingParams::descriptor(),
                              v1::ChatInput::descriptor(), v1::ChatMessage::descriptor(),
                              v1::Tool::descriptor(), v1::ToolCall::descriptor(),
                              v1::ToolChoice::descriptor(), v1::ResponseFormat::descriptor()}) {
    for (int i = 0; i < message->field_count(); ++i) {
      const std::string name = absl::StrCat(message->name(), ".", message->field(i)->name());
      EXPECT_NE(reached.contains(name), exceptions.contains(name)) << name;
    }
  }
}

}  // namespace
}  // namespace baton
