#include "router/front/generation_service.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/rpc/status.h"
#include "tests/router/router_fixture.h"

namespace baton {
namespace {

using GenerationServiceTest = RouterFixture;

TEST_F(GenerationServiceTest, RefusesRequestsWhileItIsShortOfMemory) {
  AddPrefill();
  AddDecode();
  std::atomic<bool> short_of_memory = true;
  options_.short_of_memory = [&] { return short_of_memory.load(); };
  Start();
  const absl::Status generated = Generate(Request("abc", 10)).status;
  grpc::ClientContext context;
  v1::TokenizeRequest text;
  text.set_text("abc");
  v1::TokenizeResponse tokens;
  const absl::Status tokenized = FromGrpcStatus(stub_->Tokenize(&context, text, &tokens));
  for (const absl::Status& status : {generated, tokenized}) {
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(ErrorReason(status), "SHORT_OF_MEMORY");
    EXPECT_TRUE(RetryDelay(status).has_value());
  }
  short_of_memory = false;
  EXPECT_TRUE(Generate(Request("abc", 10)).status.ok());
}

TEST_F(GenerationServiceTest, TextsThatWaitToBeTokenisedAreBoundedTogether) {
  options_.admission.bytes = 100000;
  StartOnly();
  const auto go = HoldTokenizers();
  v1::TokenizeRequest text;
  text.set_text(std::string(60000, 'a'));
  absl::Status waited;
  std::thread first([&] {
    grpc::ClientContext context;
    v1::TokenizeResponse tokens;
    waited = FromGrpcStatus(stub_->Tokenize(&context, text, &tokens));
  });
  Eventually([&] { return Metric("baton_router_queue_bytes") >= 60000; });
  grpc::ClientContext context;
  v1::TokenizeResponse tokens;
  const absl::Status refused = FromGrpcStatus(stub_->Tokenize(&context, text, &tokens));
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_TRUE(RetryDelay(refused).has_value());
  go->Notify();
  first.join();
  EXPECT_TRUE(waited.ok()) << waited;
  Eventually([&] { return Metric("baton_router_queue_bytes") == 0; });
}

TEST_F(GenerationServiceTest, LongAnswersThatAreLeftUnreadAreBoundedTogether) {
  StartOnly();
  v1::TokenizeRequest text;
  text.set_text(std::string(3000000, 'a'));  // its ids take 12 MB
  struct Call {
    grpc::ClientContext context;
    std::unique_ptr<grpc::ClientAsyncResponseReader<v1::TokenizeResponse>> reader;
    v1::TokenizeResponse tokens;
    grpc::Status status;
  };
  grpc::CompletionQueue queue;
  // As long as nobody asks for its response, gRPC takes no more of it than a window.
  std::vector<std::unique_ptr<Call>> unread;
  absl::Status refused;
  while (refused.ok() && unread.size() < 10) {
    unread.push_back(std::make_unique<Call>());
    unread.back()->reader = stub_->AsyncTokenize(&unread.back()->context, text, &queue);
    unread.back()->reader->ReadInitialMetadata(nullptr);  // sends the request
    grpc::ClientContext context;
    v1::TokenizeResponse tokens;
    refused = FromGrpcStatus(stub_->Tokenize(&context, text, &tokens));
  }
  EXPECT_EQ(refused.code(), absl::StatusCode::kResourceExhausted) << refused;
  EXPECT_EQ(ErrorReason(refused), "SHORT_OF_MEMORY");
  EXPECT_TRUE(RetryDelay(refused).has_value());
  for (const auto& call : unread) {
    call->context.TryCancel();
    call->reader->Finish(&call->tokens, &call->status, nullptr);
  }
  queue.Shutdown();
  void* tag = nullptr;
  for (bool ok = false; queue.Next(&tag, &ok);) continue;
  Eventually([&] {
    grpc::ClientContext context;
    v1::TokenizeResponse tokens;
    return stub_->Tokenize(&context, text, &tokens).ok();
  });
}

TEST_F(GenerationServiceTest, TheModelsTypeIsTheOneThatWorkersHoldItsWeightsIn) {
  options_.runner.dispatch.placement.disaggregation = Disaggregation::kNever;
  AddWorker(internal::v1::WORKER_ROLE_DECODE, {.weights_type = "Q8_0"});
  Start();
  grpc::ClientContext context;
  v1::ListModelsResponse models;
  ASSERT_TRUE(stub_->ListModels(&context, {}, &models).ok());
  ASSERT_EQ(models.models_size(), 1);
  EXPECT_EQ(models.models(0).dtype(), "Q8_0") << "the file says Q4_1";
}

TEST_F(GenerationServiceTest, AGrammarIsCheckedBeforeAnyWorkerHearsOfTheRequest) {
  options_.grammars.program = BATON_GRAMMAR_COMPILER;
  MockWorker& prefill = AddPrefill();
  MockWorker& decode = AddDecode();
  Start();
  v1::GenerateRequest request = Request("abc", 10);
  const auto refused_field = [&] {
    const Answer answer = Generate(request);
    EXPECT_EQ(answer.status.code(), absl::StatusCode::kInvalidArgument) << answer.status;
    EXPECT_TRUE(answer.ids.empty());
    const auto violations = FieldViolations(answer.status);
    return violations.size() == 1 ? violations[0].field : std::string();
  };
  request.mutable_response_format();
  EXPECT_EQ(refused_field(), "response_format");
  request.mutable_response_format()->set_regex("(");
  EXPECT_EQ(refused_field(), "response_format.regex");
  request.mutable_response_format()->set_json_schema(R"({"type":"string","not":{}})");
  EXPECT_EQ(refused_field(), "response_format.json_schema");
  EXPECT_EQ(prefill.total_calls() + decode.total_calls(), 0);
  request.mutable_response_format()->set_regex("[a-z]*");
  const Answer answer = Generate(request);
  EXPECT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.ids, Expected(request)) << "the mock workers look at no grammar";
  ExpectNothingLeft();
}

TEST_F(GenerationServiceTest, WithoutACompilerOnlyRequestsWithAFormAreRefused) {
  AddPrefill();
  AddDecode();
  Start();
  v1::GenerateRequest request = Request("abc", 10);
  EXPECT_TRUE(Generate(request).status.ok());
  request.mutable_response_format()->mutable_json_object();
  const absl::Status refused = Generate(request).status;
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition) << refused;
  ExpectNothingLeft();
}

}  // namespace
}  // namespace baton
