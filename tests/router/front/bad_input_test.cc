// Every bad input gets its status and the name of its field, from a router over real gRPC.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/match.h"

#include "common/rpc/status.h"
#include "tests/router/router_fixture.h"
#include "tests/support/raw_call.h"

namespace baton {
namespace {

class BadInput : public RouterFixture {
 protected:
  BadInput() {
    AddPrefill();
    AddDecode();
    Start();
  }
  void ExpectField(const std::string& field, const v1::GenerateRequest& request) {
    const absl::Status status = Generate(request).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field << ": " << status;
    const std::vector<FieldViolation> violations = FieldViolations(status);
    ASSERT_EQ(violations.size(), 1u) << field << ": " << status;
    EXPECT_EQ(violations[0].field.substr(0, field.size()), field) << status;
  }
  // A good request whose sampling parameters `change` spoils.
  void ExpectSampling(const std::string& field,
                      const std::function<void(v1::SamplingParams&)>& change) {
    v1::GenerateRequest request = Request("abc", 10);
    change(*request.mutable_sampling_params());
    ExpectField("sampling_params." + field, request);
  }
};

TEST_F(BadInput, SamplingFieldsAreNamed) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const float infinite = std::numeric_limits<float>::infinity();
  for (const float value : {nan, infinite, -1.0f}) {
    ExpectSampling("temperature", [&](auto& p) { p.set_temperature(value); });
  }
  for (const float value : {0.0f, 2.0f, nan}) {
    ExpectSampling("top_p", [&](auto& p) { p.set_top_p(value); });
  }
  ExpectSampling("top_k", [](auto& p) { p.set_top_k(-5); });
  ExpectSampling("min_p", [](auto& p) { p.set_min_p(1.5f); });
  ExpectSampling("repetition_penalty", [](auto& p) { p.set_repetition_penalty(0); });
  ExpectSampling("presence_penalty", [](auto& p) { p.set_presence_penalty(3); });
  ExpectSampling("frequency_penalty", [](auto& p) { p.set_frequency_penalty(-3); });
  ExpectSampling("max_tokens", [](auto& p) { p.set_max_tokens(0); });
  ExpectSampling("min_tokens", [](auto& p) { p.set_min_tokens(11); });
  ExpectSampling("stop", [](auto& p) { p.add_stop(""); });
  ExpectSampling("stop", [](auto& p) {
    for (int i = 0; i < 17; ++i) p.add_stop("s");
  });
  ExpectSampling("stop_token_ids", [](auto& p) { p.add_stop_token_ids(kVocab); });
  ExpectSampling("logit_bias", [](auto& p) { (*p.mutable_logit_bias())[kVocab] = 1; });
  ExpectSampling("logit_bias", [](auto& p) { (*p.mutable_logit_bias())[1] = 101; });
  ExpectSampling("logprobs", [](auto& p) { p.set_logprobs(21); });
  ExpectSampling("prompt_logprobs", [](auto& p) { p.set_prompt_logprobs(21); });
}

TEST_F(BadInput, FieldsThatAreNotSupportedAreNamed) {
  ExpectSampling("n", [](auto& p) { p.set_n(17); });
  ExpectSampling("bad_words", [](auto& p) { p.add_bad_words("x"); });
  ExpectSampling("truncate_prompt_tokens", [](auto& p) { p.set_truncate_prompt_tokens(1); });
  v1::GenerateRequest chat = Request("", 10);
  chat.mutable_chat()->add_messages()->set_role("user");
  (*chat.mutable_chat()->mutable_chat_template_kwargs()->mutable_fields())["messages"]
      .set_bool_value(1);
  ExpectField("chat.chat_template_kwargs", chat);
}

TEST_F(BadInput, PromptsAreNamed) {
  ExpectField("prompt", Request("", 10));
  ExpectField("prompt", Request("\x01", 10));  // no token of this vocabulary
  v1::GenerateRequest ids = Request("", 10);
  ids.mutable_prompt_token_ids()->add_ids(kVocab);
  ExpectField("prompt_token_ids", ids);
  ids.mutable_prompt_token_ids()->clear_ids();
  ExpectField("prompt_token_ids", ids);
}

// Where a client's library lets it send what is no message.
TEST_F(BadInput, WhatCannotBeDecodedIsRefusedByNameAndCounted) {
  constexpr char kLatin1[] = "gr\xfc\xdf";
  const std::string good = Request("abc", 10).SerializeAsString();
  v1::TokenizeRequest text;
  text.set_text(kLatin1);
  v1::DetokenizeRequest ids;
  ids.set_model(kLatin1);
  const struct {
    const char* method;
    std::string bytes;
    std::string field;  // empty: none is at fault
  } cases[] = {
      {"Generate", Request(kLatin1, 10).SerializeAsString(), "prompt"},
      {"Generate", good.substr(0, good.size() - 1), "return_token_ids"},
      {"Generate", "\xff", ""},
      {"Tokenize", text.SerializeAsString(), "text"},
      {"Detokenize", ids.SerializeAsString(), "model"},
      {"ListModels", "\xff", ""},
  };
  const auto channel = grpc::CreateChannel(address_, grpc::InsecureChannelCredentials());
  const std::string service = "/baton.v1.GenerationService/";
  for (const auto& [method, bytes, field] : cases) {
    const absl::Status status = RawCall(channel, service + method, {bytes}).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << method << ": " << status;
    EXPECT_FALSE(status.message().empty()) << method;
    const std::vector<FieldViolation> violations = FieldViolations(status);
    EXPECT_EQ(violations.empty() ? "" : violations[0].field, field) << method << ": " << status;
  }
  const absl::Status nothing = RawCall(channel, service + "Generate", {}).status;
  EXPECT_EQ(nothing.code(), absl::StatusCode::kInvalidArgument) << nothing;
  EXPECT_EQ(Metric("baton_requests_total", "status=\"INVALID_ARGUMENT\""), 4);
}

TEST_F(BadInput, TextForTheTokenizerAndFromItHasABound) {
  v1::TokenizeRequest text;
  text.set_text(std::string(kMaxPromptBytes + 1, 'a'));
  v1::DetokenizeRequest ids;
  ids.set_skip_special_tokens(false);
  ids.mutable_token_ids()->Resize(kMaxPromptBytes / 7 + 1, kEnd);  // "<|end|>"
  grpc::ClientContext contexts[2];
  v1::TokenizeResponse tokens;
  v1::DetokenizeResponse detokenized;
  const absl::Status refused[] = {
      FromGrpcStatus(stub_->Tokenize(&contexts[0], text, &tokens)),
      FromGrpcStatus(stub_->Detokenize(&contexts[1], ids, &detokenized))};
  const char* const fields[] = {"text", "token_ids"};
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(FieldViolations(refused[i]).size(), 1u) << refused[i];
    EXPECT_EQ(FieldViolations(refused[i])[0].field, fields[i]);
    EXPECT_TRUE(absl::StrContains(refused[i].message(), "at most 3145728 are allowed"));
  }
}

TEST_F(BadInput, ABytesPlaceIsNamedWhereTheVocabularyHasNoTokenForIt) {
  const auto expect = [](const absl::Status& status, const std::string& field,
                         const std::string& place) {
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field << ": " << status;
    const std::vector<FieldViolation> violations = FieldViolations(status);
    ASSERT_EQ(violations.size(), 1u) << field << ": " << status;
    EXPECT_EQ(violations[0].field, field);
    EXPECT_THAT(violations[0].description, testing::HasSubstr(place));
  };
  expect(Generate(Request("abc\x01z", 10)).status, "prompt", "byte 0x01 at offset 3");

  v1::GenerateRequest chat = Request("", 10);
  for (const char* content : {"abc", "de\x02"}) {
    v1::ChatMessage& message = *chat.mutable_chat()->add_messages();
    message.set_role("user");
    message.set_content(content);
  }
  expect(Generate(chat).status, "chat.messages[1].content", "byte 0x02 at offset 2");
  chat.mutable_chat()->mutable_messages(0)->set_role("USER");
  expect(Generate(chat).status, "chat.messages[0].role", "byte 0x55 at offset 0");

  grpc::ClientContext context;
  v1::TokenizeRequest request;
  v1::TokenizeResponse response;
  request.set_text("ab\xC3\xA9");
  expect(FromGrpcStatus(stub_->Tokenize(&context, request, &response)), "text",
         "byte 0xC3 at offset 2");
}

TEST_F(BadInput, WhatExceedsTheContextSaysSo) {
  for (const v1::GenerateRequest& request :
       {Request(std::string(kContext + 1, 'a'), 1), Request("abc", kContext)}) {
    const absl::Status status = Generate(request).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_EQ(ErrorReason(status), kReasonContextLengthExceeded);
  }
  v1::GenerateRequest ids = Request("", 1);
  ids.mutable_prompt_token_ids()->mutable_ids()->Resize(kContext + 1, 0);
  EXPECT_EQ(ErrorReason(Generate(ids).status), kReasonContextLengthExceeded);
}

TEST_F(BadInput, AnUnknownModelIsNotFound) {
  v1::GenerateRequest request = Request("abc", 10);
  request.set_model("other");
  EXPECT_EQ(Generate(request).status.code(), absl::StatusCode::kNotFound);
  request.set_model("letters");
  EXPECT_TRUE(Generate(request).status.ok());
}

TEST_F(BadInput, AGoodRequestFillsItsDefaultsAndEndsWithTheContext) {
  v1::GenerateRequest request = Request(std::string(kContext - 10, 'a'), 1);
  request.mutable_sampling_params()->clear_max_tokens();
  const Answer answer = Generate(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.ids.size(), 10u);
}

TEST_F(RouterFixture, OnlyWhatNoWorkerCouldHoldIsTooLong) {
  MockWorker::Options short_worker, long_worker;
  short_worker.max_model_len = 200;
  long_worker.max_model_len = 1000;
  AddWorker(internal::v1::WORKER_ROLE_DECODE, short_worker);
  AddWorker(internal::v1::WORKER_ROLE_DECODE, long_worker);
  options_.runner.dispatch.placement.disaggregation = Disaggregation::kNever;
  Start();
  EXPECT_TRUE(Generate(Request(std::string(500, 'a'), 10)).status.ok());
  const absl::Status status = Generate(Request(std::string(990, 'a'), 20)).status;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  EXPECT_EQ(ErrorReason(status), kReasonContextLengthExceeded);
  EXPECT_NE(status.message().find("1000"), absl::string_view::npos) << status;
  v1::GenerateRequest open_end = Request(std::string(150, 'a'), 1);
  open_end.mutable_sampling_params()->clear_max_tokens();
  EXPECT_EQ(Generate(open_end).ids.size(), 50u) << "either worker can hold it";
}

}  // namespace
}  // namespace baton
