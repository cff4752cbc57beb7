#include "router/front/served_model.h"

#include <atomic>
#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "common/rpc/status.h"
#include "tests/support/gguf_builder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

absl::StatusOr<std::unique_ptr<ServedModel>> Load(const std::string& chat_template,
                                                  const v1::SamplingParams& defaults = {},
                                                  const std::vector<std::string>& tokens = {"a",
                                                                                            "b"},
                                                  const std::vector<int32_t>& types = {1, 1}) {
  GgufBuilder builder;
  builder.Text("general.architecture", "llama")
      .Uint32("llama.context_length", 100)
      .Text("tokenizer.ggml.model", "gpt2")
      .Text("tokenizer.ggml.pre", "gpt-2")
      .Texts("tokenizer.ggml.tokens", tokens)
      .Int32s("tokenizer.ggml.token_type", types)
      .Texts("tokenizer.ggml.merges", {})
      .Text("tokenizer.chat_template", chat_template);
  const auto file = GgufFile::Parse(builder.Build(), "small.gguf", GgufFile::Part::kTokenizer);
  if (!file.ok()) return file.status();
  return ServedModel::Load(*file, {}, defaults);
}

// What a chat with a model of that template ends with.
absl::Status Prepared(const std::string& chat_template, bool stopping) {
  const auto model = Load(chat_template);
  if (!model.ok()) return model.status();
  v1::GenerateRequest request;
  request.mutable_chat()->add_messages()->set_role("user");
  const std::atomic<bool> stops = stopping;
  return (*model)->Prepare(request, {}, Disaggregation::kAlways, 0, stops).status();
}

constexpr char kEndless[] =
    "{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}";

TEST(ServedModel, AnErrorOfACostlyChatTemplateNamesItAndTheRemedy) {
  const absl::Status status = Prepared(kEndless, false);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("chat.messages"), HasSubstr("chat template line 1: more than"),
                    HasSubstr("send fewer or shorter messages"), HasSubstr("model 'small'")));
}

TEST(ServedModel, AChatTemplateEndsWhenTheRouterStops) {
  EXPECT_THAT(std::string(Prepared(kEndless, true).message()), HasSubstr("cancelled"));
}

TEST(ServedModel, AFieldHasTheClientsValueElseTheModelsElseTheApis) {
  v1::SamplingParams defaults;
  defaults.set_temperature(0.6F);
  defaults.set_top_k(20);
  defaults.set_top_p(0.95F);
  const auto model = Load("x", defaults);
  ASSERT_TRUE(model.ok()) << model.status();
  v1::GenerateRequest request;
  request.set_prompt("ab");
  request.mutable_sampling_params()->set_temperature(0);
  request.mutable_sampling_params()->set_top_k(0);
  request.mutable_sampling_params()->add_stop("b");
  const std::atomic<bool> stops = false;
  const auto spec = (*model)->Prepare(request, {}, Disaggregation::kAlways, 7, stops);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_TRUE(spec->sampling.has_temperature());
  EXPECT_EQ(spec->sampling.temperature(), 0);
  EXPECT_EQ(spec->sampling.top_k(), 0);
  EXPECT_EQ(spec->sampling.top_p(), 0.95F);
  EXPECT_EQ(spec->sampling.min_p(), 0);
  EXPECT_EQ(spec->sampling.repetition_penalty(), 1);
  EXPECT_EQ(spec->sampling.seed(), 7u);
  EXPECT_THAT(spec->sampling.stop(), ElementsAre("b"));
}

TEST(ServedModel, AFieldThatNeitherRequestNorModelSetsHasTheDefaultOfEveryDoor) {
  const auto model = Load("x");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->default_sampling().temperature(), 0.7F);
  EXPECT_EQ((*model)->default_sampling().top_p(), 0.95F);
  const std::atomic<bool> stops = false;
  v1::GenerateRequest request;
  request.set_prompt("ab");
  auto spec = (*model)->Prepare(request, {}, Disaggregation::kAlways, 7, stops);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->sampling.temperature(), 0.7F);
  EXPECT_EQ(spec->sampling.top_p(), 0.95F);
  EXPECT_EQ(spec->sampling.top_k(), 0);
  request.mutable_sampling_params()->set_temperature(1);
  spec = (*model)->Prepare(request, {}, Disaggregation::kAlways, 7, stops);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->sampling.temperature(), 1);
  EXPECT_EQ(spec->sampling.top_p(), 0.95F) << "each field by itself";
  request.mutable_sampling_params()->set_top_p(1);
  spec = (*model)->Prepare(request, {}, Disaggregation::kAlways, 7, stops);
  ASSERT_TRUE(spec.ok()) << spec.status();
  EXPECT_EQ(spec->sampling.top_p(), 1);
}

// No token of that model stands for more than 4 bytes, those of a character.
TEST(ServedModel, ATextThatNoContextHoldsIsRefusedBeforeItIsTokenised) {
  const auto model = Load("{{ messages[0].content }}");
  ASSERT_TRUE(model.ok()) << model.status();
  const std::atomic<bool> stops = false;
  uint64_t tokenised = 1;
  const auto prepared = [&](const v1::GenerateRequest& request) {
    return (*model)->Prepare(request, {}, Disaggregation::kAlways, 0, stops, &tokenised).status();
  };
  v1::GenerateRequest request;
  request.set_prompt(std::string(404, 'a'));
  absl::Status refused = prepared(request);
  EXPECT_EQ(refused.code(), absl::StatusCode::kInvalidArgument) << refused;
  EXPECT_EQ(ErrorReason(refused), kReasonContextLengthExceeded);
  ASSERT_EQ(FieldViolations(refused).size(), 1u);
  EXPECT_EQ(FieldViolations(refused)[0].field, "prompt");
  EXPECT_THAT(FieldViolations(refused)[0].description,
              AllOf(HasSubstr("has 404 bytes"), HasSubstr("at most 400")));
  EXPECT_EQ(tokenised, 0u);
  const auto tokens = (*model)->PromptTokens(request, stops);
  ASSERT_TRUE(tokens.ok()) << "who only counts them may: " << tokens.status();
  EXPECT_EQ(tokens->size(), 404u);

  v1::GenerateRequest chat;
  chat.mutable_chat()->add_messages()->set_role("user");
  chat.mutable_chat()->mutable_messages(0)->set_content(std::string(404, 'a'));
  refused = prepared(chat);
  ASSERT_EQ(FieldViolations(refused).size(), 1u) << refused;
  EXPECT_EQ(FieldViolations(refused)[0].field, "chat.messages");
  EXPECT_THAT(FieldViolations(refused)[0].description, HasSubstr("has 404 bytes"));
}

TEST(ServedModel, TellsHowMuchWasTokenisedOfAPromptThatIsRefused) {
  const auto model = Load("x");
  ASSERT_TRUE(model.ok()) << model.status();
  const std::atomic<bool> stops = false;
  const auto tokenised = [&](const std::string& prompt) {
    v1::GenerateRequest request;
    request.set_prompt(prompt);
    uint64_t tokens = 0;
    EXPECT_FALSE((*model)->Prepare(request, {}, Disaggregation::kAlways, 0, stops, &tokens).ok());
    return tokens;
  };
  EXPECT_EQ(tokenised(std::string(101, 'a')), 101u) << "more than the context";
  EXPECT_EQ(tokenised(std::string(39, 'a') + "?"), 10u) << "no token is known for it";
}

// A chat with the tool "a", whose name a vocabulary of two letters knows.
v1::GenerateRequest ToolRequest(v1::ToolChoice::Mode mode) {
  v1::GenerateRequest request;
  v1::ChatInput& chat = *request.mutable_chat();
  chat.add_messages()->set_role("user");
  chat.add_tools()->set_name("a");
  chat.mutable_tool_choice()->set_mode(mode);
  return request;
}

// REQUIRES: the request's answer is held to a form.
GrammarSpec GrammarOf(const ServedModel& model, const v1::GenerateRequest& request) {
  const auto spec = model.GrammarOf(request);
  return spec.ok() && spec->has_value() ? **spec : GrammarSpec();
}

TEST(ServedModel, AToolChoiceThatRequiresCallsIsAForm) {
  const auto model = Load("{{ tools }}<tool_call>{\"name\"</tool_call>");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ((*model)->tool_form().kind(), ToolFormKind::kHermes);
  const v1::GenerateRequest required = ToolRequest(v1::ToolChoice::MODE_REQUIRED);
  EXPECT_TRUE((*model)->Validate(required).ok()) << (*model)->Validate(required);
  EXPECT_EQ(GrammarOf(**model, required).tags.size(), 1u);
  EXPECT_FALSE((*model)->GrammarOf(ToolRequest(v1::ToolChoice::MODE_AUTO))->has_value());
  v1::GenerateRequest asked = ToolRequest(v1::ToolChoice::MODE_AUTO);
  asked.mutable_response_format()->set_regex("a");
  EXPECT_EQ(GrammarOf(**model, asked).text, "a");
  v1::GenerateRequest prompt;
  prompt.set_prompt("a");
  EXPECT_FALSE((*model)->GrammarOf(prompt)->has_value());
}

// The number of tokens of the chat's prompt, each of which is one letter.
size_t PromptTokens(const ServedModel& model, const v1::GenerateRequest& request) {
  const std::atomic<bool> stops = false;
  const auto spec = model.Prepare(request, {}, Disaggregation::kAlways, 0, stops);
  EXPECT_TRUE(spec.ok()) << spec.status();
  return spec.ok() ? spec->prompt_token_ids.size() : 0;
}

TEST(ServedModel, AChatsToolsCallsAndVariablesReachTheTemplate) {
  const auto model = Load(
      "a{% if tools %}{{ 'b' * tools | length }}{% endif %}{% for m in messages %}"
      "{% if m.tool_calls %}{{ m.tool_calls[0].function.arguments.x }}{% endif %}{% endfor %}"
      "{{ 'a' * (count or 0) }}{# <tool_call>{\"name\"</tool_call> #}");
  ASSERT_TRUE(model.ok()) << model.status();
  v1::GenerateRequest request = ToolRequest(v1::ToolChoice::MODE_AUTO);
  EXPECT_EQ(PromptTokens(**model, request), 2u);
  EXPECT_EQ(PromptTokens(**model, ToolRequest(v1::ToolChoice::MODE_NONE)), 1u);
  v1::ChatMessage& answer = *request.mutable_chat()->add_messages();
  answer.set_role("assistant");
  answer.add_tool_calls()->set_name("a");
  answer.mutable_tool_calls(0)->set_arguments(R"({"x": "bbb"})");
  EXPECT_EQ(PromptTokens(**model, request), 5u);
  auto& variables = *request.mutable_chat()->mutable_chat_template_kwargs()->mutable_fields();
  variables["count"].set_number_value(4);
  EXPECT_EQ(PromptTokens(**model, request), 9u);
  variables["tools"].set_bool_value(true);
  EXPECT_THAT(std::string((*model)->Validate(request).message()),
              HasSubstr("chat.chat_template_kwargs"));
}

TEST(ServedModel, ItsParsersTellAControlTokenFromATextThatIsSpelledLikeIt) {
  const auto model =
      Load("{{ tools }}<|channel|><|message|>commentary", {},
           {"a", "<|channel|>", "<|message|>", "<|end|>", "a<|end|>"}, {1, 3, 3, 3, 1});
  ASSERT_TRUE(model.ok()) << model.status();
  const ToolForm& form = (*model)->tool_form();
  ASSERT_EQ(form.kind(), ToolFormKind::kHarmony);
  EXPECT_TRUE(form.needs_token_ids());
  const auto text = [&](const std::vector<uint32_t>& ids) {
    const auto parser = form.NewParser({}, 0, 0);
    parser->AddTokens(ids);
    std::string shown;
    for (const AnswerPart& part : parser->Add("a<|end|>")) shown += part.text;
    for (const AnswerPart& part : parser->Finish()) shown += part.text;
    return shown;
  };
  EXPECT_EQ(text({0, 3}), "a");
  EXPECT_EQ(text({4}), "a<|end|>");
  EXPECT_EQ(text({4, 99}), "a<|end|>") << "no token has this id";
}

TEST(ServedModel, MaxTokensAreCutToTheContextWhereThatIsAsked) {
  const auto model = Load("aaaaa");  // has a context of 100 tokens
  ASSERT_TRUE(model.ok()) << model.status();
  v1::GenerateRequest request = ToolRequest(v1::ToolChoice::MODE_NONE);
  const std::atomic<bool> stops = false;
  const auto cut = [&](uint32_t max_tokens, LongAnswers long_answers) {
    request.mutable_sampling_params()->set_max_tokens(max_tokens);
    return (*model)->Prepare(request, {}, Disaggregation::kAlways, 0, stops, nullptr, long_answers);
  };
  for (const auto& [asked, left] :
       {std::pair(1u, 1u), std::pair(95u, 95u), std::pair(96u, 95u), std::pair(UINT32_MAX, 95u)}) {
    const auto spec = cut(asked, LongAnswers::kCut);
    ASSERT_TRUE(spec.ok()) << spec.status();
    EXPECT_EQ(spec->sampling.max_tokens(), left) << asked;
    EXPECT_EQ(cut(asked, LongAnswers::kRefuse).ok(), asked == left) << asked;
  }
  request.mutable_sampling_params()->set_min_tokens(96);
  EXPECT_THAT(std::string(cut(1000, LongAnswers::kCut).status().message()),
              HasSubstr("min_tokens"));
  const auto full = Load(std::string(100, 'a'));
  ASSERT_TRUE(full.ok()) << full.status();
  request.mutable_sampling_params()->clear_min_tokens();
  const auto refused =
      (*full)->Prepare(request, {}, Disaggregation::kAlways, 0, stops, nullptr, LongAnswers::kCut);
  EXPECT_EQ(ErrorReason(refused.status()), kReasonContextLengthExceeded);
}

TEST(ServedModel, ReasoningIsOpenWhereTheTemplateWritesItsBeginning) {
  const auto model = Load(
      "a{% if thinking is not defined or thinking %}<think>\n{% else %}<think></think>{% endif %}");
  ASSERT_TRUE(model.ok()) << model.status();
  v1::ChatInput chat;
  EXPECT_TRUE((*model)->tool_form().has_reasoning());
  const auto first = [&] {
    const std::vector<AnswerPart> parts =
        (*model)->ToolFormFor(chat).NewParser(chat, 0, 0)->Add("x");
    return parts.empty() ? AnswerPart::Kind::kText : parts.front().kind;
  };
  EXPECT_EQ(first(), AnswerPart::Kind::kReasoning);
  (*chat.mutable_chat_template_kwargs()->mutable_fields())["thinking"].set_bool_value(false);
  EXPECT_EQ(first(), AnswerPart::Kind::kText);
}

// The text of the chat's prompt, of a model whose tokens are "a" and "b".
std::string PromptText(const ServedModel& model, const v1::ChatInput& chat) {
  v1::GenerateRequest request;
  *request.mutable_chat() = chat;
  const std::atomic<bool> stops = false;
  const auto tokens = model.PromptTokens(request, stops);
  EXPECT_TRUE(tokens.ok()) << tokens.status();
  return tokens.ok() ? model.tokenizer().Decode(*tokens, false) : "";
}

TEST(ServedModel, ASystemMessageThatTheTemplateRefusesIsAppendedToTheMessageBefore) {
  const auto model = Load(
      "{% for m in messages %}{% if m.role == 'system' and not loop.first %}"
      "{{ raise_exception('only first') }}{% endif %}{{ m.content | replace('\n', '') }}"
      "{% endfor %}");
  ASSERT_TRUE(model.ok()) << model.status();
  v1::ChatInput chat;
  for (const auto& [role, content] : {std::pair("user", "ab"), std::pair("system", "bb")}) {
    v1::ChatMessage& message = *chat.add_messages();
    message.set_role(role);
    message.set_content(content);
  }
  // The empty line between the texts is left out, since this vocabulary has no token for it.
  EXPECT_EQ(PromptText(**model, chat), "abbb");
  chat.mutable_messages(1)->set_role("developer");
  EXPECT_EQ(PromptText(**model, chat), "abbb");
}

TEST(ServedModel, AnOnlyTemplateThatIsForToolsRendersAllChats) {
  GgufBuilder builder;
  builder.Text("general.architecture", "llama")
      .Uint32("llama.context_length", 100)
      .Text("tokenizer.ggml.model", "gpt2")
      .Text("tokenizer.ggml.pre", "gpt-2")
      .Texts("tokenizer.ggml.tokens", {"a", "b"})
      .Int32s("tokenizer.ggml.token_type", {1, 1})
      .Texts("tokenizer.ggml.merges", {})
      .Text("tokenizer.chat_template.tool_use", "a{% if tools %}b{% endif %}");
  const auto file = GgufFile::Parse(builder.Build(), "small.gguf", GgufFile::Part::kTokenizer);
  ASSERT_TRUE(file.ok()) << file.status();
  const auto model = ServedModel::Load(*file, {});
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(PromptText(**model, ToolRequest(v1::ToolChoice::MODE_NONE).chat()), "a");
}

}  // namespace
}  // namespace baton
