// What Baton's own answers tell, the answers of OpenAI's API tell too.
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"

#include "router/openai/chat_answer.h"
#include "router/openai/completion_answer.h"
#include "router/openai/model_routes.h"
#include "router/openai/tokenizer_routes.h"
#include "tests/router/openai/responses.h"
#include "tests/router/openai/test_tool_form.h"

namespace baton {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr char kChunk[] = R"(
  request_id: "r"
  chunk {
    index: 1 text: "ab" token_ids: [3, 4]
    logprobs { token_id: 3 token: "a" logprob: -1
               top_logprobs { token_id: 5 token: "c" logprob: -2 } }
    prompt_logprobs { token_id: 6 token: "p" logprob: -3 }
  })";
constexpr char kComplete[] = R"(
  request_id: "r"
  complete {
    index: 1 text: "ab" token_ids: [3, 4] finish_reason: FINISH_REASON_LENGTH matched_token_id: 4
    logprobs { token_id: 3 token: "a" logprob: -1
               top_logprobs { token_id: 5 token: "c" logprob: -2 } }
    prompt_logprobs { token_id: 6 token: "p" logprob: -3 }
    system_fingerprint: "f" seed: 7
    usage { prompt_tokens: 1 completion_tokens: 2 total_tokens: 3 cached_tokens: 4
            accepted_prediction_tokens: 5 rejected_prediction_tokens: 6 }
    timings {
      queue { seconds: 1 } prefill_queue { seconds: 2 } prefill { seconds: 3 }
      kv_transfer { seconds: 4 } exposed_kv_transfer { seconds: 5 }
      decode_queue { seconds: 6 } decode { seconds: 7 }
      time_to_first_token { seconds: 8 } total { seconds: 9 } kv_transfer_bytes: 10
      kv_transfer_bytes_saved: 11 kv_transfer_bytes_resent: 12 kv_transfer_messages: 13
      kv_wire_dtype: "w" prefill_worker: "p" decode_worker: "d" attempts: 14 local_prefill: true
      exact: true
    }
  })";
constexpr char kStopped[] = R"(
  complete { index: 1 finish_reason: FINISH_REASON_STOP matched_stop_str: "s" })";
constexpr char kModels[] = R"(
  models { id: "i" root: "r" max_model_len: 1 created: 2 dtype: "d" kv_cache_dtype: "k"
           block_size: 3 })";

const std::map<std::string, std::string>& ToldOtherwise() {
  static const auto& fields = *new std::map<std::string, std::string>{
      {"GenerateResponse.request_id", "the HTTP request's id is in the answer's header"},
      {"TokenLogprob.token_id", "OpenAI names tokens by their text; return_token_ids has the ids"},
      {"TopLogprob.token_id", "OpenAI names tokens by their text"},
      {"Usage.total_tokens", "it is summed over the prompts of a request"},
  };
  return fields;
}

std::string FormatAll(AnswerFormat& format, const std::vector<v1::GenerateResponse>& responses) {
  std::string out;
  format.Begin(0, 5);
  for (const v1::GenerateResponse& response : responses) format.Add(0, response, out);
  format.Finish(out);
  return out;
}

// Every answer with `responses`, which are about choice 1 of 2.
std::string Answers(const std::vector<v1::GenerateResponse>& responses, bool stream) {
  const AnswerOptions options{.id = "id",
                              .model = "m",
                              .stream = {.stream = stream, .include_usage = true},
                              .choices = 2,
                              .logprobs = true,
                              .return_timings = true,
                              .return_token_ids = true};
  std::vector<std::unique_ptr<AnswerParser>> parsers;
  for (int i = 0; i < 2; ++i) parsers.push_back(NewTestParser(i));
  return FormatAll(*NewChatAnswer({.answer = options}, std::move(parsers)), responses) +
         FormatAll(*NewCompletionAnswer(options, 1), responses);
}

std::string StreamOf(const v1::GenerateResponse& response) { return Answers({response}, true); }

std::string WholeOf(const v1::GenerateResponse& response) {
  return Answers({Complete(0, ""), Complete(1, ""), response}, false);
}

// Adds the fields of `message`, and of those inside it, without which `write` writes something
// else, such as "Usage.cached_tokens". A message counts as told where a field in it is.
bool AddToldFields(Message& message, const std::function<std::string()>& write,
                   std::set<std::string>& told) {
  const std::string whole = write();
  const auto& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  bool any = false;
  for (const FieldDescriptor* field : fields) {
    bool differs = false;
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      Message& inner = field->is_repeated() ? *reflection.MutableRepeatedMessage(&message, field, 0)
                                            : *reflection.MutableMessage(&message, field);
      differs = AddToldFields(inner, write, told);
    } else {
      const std::unique_ptr<Message> kept(message.New());
      kept->CopyFrom(message);
      reflection.ClearField(&message, field);
      // Zero of an enumeration means that it is not set.
      if (field->enum_type() != nullptr) reflection.SetEnumValue(&message, field, 1);
      differs = write() != whole;
      message.CopyFrom(*kept);
    }
    if (differs) told.insert(absl::StrCat(message.GetDescriptor()->name(), ".", field->name()));
    any |= differs;
  }
  return any;
}

template <typename Response>
void AddTold(const char* text, const std::function<std::string(const Response&)>& write,
             std::set<std::string>& told) {
  Response response;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &response)) << text;
  AddToldFields(
      response, [&] { return write(response); }, told);
}

TEST(AnswerFields, EveryFieldOfBatonsAnswersIsTold) {
  std::set<std::string> told;
  AddTold<v1::GenerateResponse>(kChunk, StreamOf, told);
  for (const char* complete : {kComplete, kStopped}) {
    AddTold<v1::GenerateResponse>(complete, StreamOf, told);
    AddTold<v1::GenerateResponse>(complete, WholeOf, told);
  }
  AddTold<v1::ListModelsResponse>(kModels, ModelListBody, told);
  AddTold<v1::TokenizeResponse>(
      "token_ids: [1, 2] max_model_len: 3",
      [](const v1::TokenizeResponse& response) {
        TokenizeText text({.tokens = {response.token_ids().begin(), response.token_ids().end()},
                           .max_model_len = response.max_model_len()},
                          nullptr);
        return text.Next(SIZE_MAX);
      },
      told);
  AddTold<v1::DetokenizeResponse>(
      R"(text: "a")",
      [](const v1::DetokenizeResponse& response) { return DetokenizeBody(response.text()); }, told);
  for (const auto* message :
       {v1::GenerateResponse::descriptor(), v1::GenerateChunk::descriptor(),
        v1::GenerateComplete::descriptor(), v1::TokenLogprob::descriptor(),
        v1::TopLogprob::descriptor(), v1::Usage::descriptor(), v1::RequestTimings::descriptor(),
        v1::ListModelsResponse::descriptor(), v1::ModelCard::descriptor(),
        v1::TokenizeResponse::descriptor(), v1::DetokenizeResponse::descriptor()}) {
    for (int i = 0; i < message->field_count(); ++i) {
      const std::string name = absl::StrCat(message->name(), ".", message->field(i)->name());
      EXPECT_NE(told.contains(name), ToldOtherwise().contains(name))
          << name << " has to be told, or to have its reason in ToldOtherwise";
    }
  }
}

}  // namespace
}  // namespace baton
