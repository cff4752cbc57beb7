#include "router/router.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <thread>

#include "common/rpc/status.h"
#include "tests/router/router_fixture.h"

namespace baton {
namespace {

using testing::HasSubstr;

using RouterTest = RouterFixture;

TEST_F(RouterTest, StreamsThroughBothWorkersAndTellsWhere) {
  AddPrefill();
  AddDecode();
  Start();
  const v1::GenerateRequest request = Request("hello", 20);
  const Answer answer = Generate(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.ids, Expected(request));
  ASSERT_EQ(answer.completes.size(), 1u);
  const v1::GenerateComplete& complete = answer.completes[0];
  EXPECT_EQ(complete.finish_reason(), v1::FINISH_REASON_LENGTH);
  EXPECT_EQ(complete.usage().prompt_tokens(), 5u);
  EXPECT_EQ(complete.usage().completion_tokens(), 20u);
  EXPECT_EQ(complete.timings().prefill_worker(), "p0");
  EXPECT_EQ(complete.timings().decode_worker(), "d1");
  EXPECT_EQ(complete.timings().kv_transfer_bytes(), 12345u);
  EXPECT_EQ(complete.timings().attempts(), 1u);
  EXPECT_FALSE(complete.timings().local_prefill());
  EXPECT_TRUE(complete.timings().exact());
  EXPECT_THAT(complete.system_fingerprint(), HasSubstr("mock"));
  ExpectNothingLeft();
}

TEST_F(RouterTest, ClientsAreToldNeitherNamesNorAddressesOfWorkersUnlessTheOperatorWantsIt) {
  options_.runner.expose_workers = false;
  options_.runner.machine.worker_timeout = absl::Milliseconds(300);
  AddPrefill();
  MockWorker& decode = AddDecode();
  Start();
  Answer answer = Generate(Request("hello", 20));
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_THAT(answer.completes[0].timings().prefill_worker(), ::testing::StartsWith("prefill-"));
  EXPECT_THAT(answer.completes[0].timings().decode_worker(), ::testing::StartsWith("decode-"));
  decode.Behave({.fails = true});
  answer = Generate(Request("hello", 20));
  ASSERT_TRUE(GetErrorInfo(answer.status).has_value()) << answer.status;
  EXPECT_THAT(GetErrorInfo(answer.status)->worker, ::testing::StartsWith("decode-"));
  EXPECT_THAT(std::string(answer.status.message()), HasSubstr("the router's log tells why"));
}

TEST_F(RouterTest, StreamedOrNotTheAnswerIsTheSame) {
  AddPrefill();
  AddDecode();
  Start();
  v1::GenerateRequest request = Request("abc", 50);
  request.set_request_id("mine");
  request.mutable_sampling_params()->set_logprobs(0);
  request.mutable_sampling_params()->set_skip_special_tokens(false);
  const Answer streamed = Generate(request);
  request.set_stream(false);
  const Answer whole = Generate(request);
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  EXPECT_EQ(whole.text, streamed.text);
  EXPECT_EQ(whole.ids, streamed.ids);
  ASSERT_EQ(whole.logprobs.size(), 50u);
  std::string bytes;
  for (size_t i = 0; i < 50; ++i) {
    EXPECT_EQ(whole.logprobs[i].SerializeAsString(), streamed.logprobs[i].SerializeAsString());
    bytes += whole.logprobs[i].token();
  }
  EXPECT_EQ(bytes, whole.text);
}

TEST_F(RouterTest, TellsTheSeedThatItDrewWhichGivesTheSameTokensAgain) {
  AddPrefill();
  AddDecode();
  Start();
  v1::GenerateRequest request = Request("abc", 10);
  request.set_stream(false);
  request.mutable_sampling_params()->set_n(3);
  request.mutable_sampling_params()->clear_seed();
  const Answer drawn = Generate(request);
  const Answer drawn_anew = Generate(request);
  ASSERT_EQ(drawn.completes.size(), 3u) << drawn.status;
  const uint64_t seed = drawn.completes[0].seed();
  request.mutable_sampling_params()->set_seed(seed);
  const Answer told = Generate(request);
  EXPECT_EQ(told.ids, drawn.ids);
  EXPECT_NE(drawn_anew.ids, drawn.ids);
  for (const Answer* answer : {&drawn, &told}) {
    for (const v1::GenerateComplete& complete : answer->completes) {
      EXPECT_EQ(complete.seed(), seed);
    }
  }
}

TEST_F(RouterTest, ManyAtOnceGetEachItsOwnTokens) {
  for (int i = 0; i < 2; ++i) AddPrefill();
  for (int i = 0; i < 2; ++i) AddDecode();
  Start();
  std::vector<std::thread> clients;
  std::atomic<int> right = 0;
  for (int i = 0; i < 48; ++i) {
    clients.emplace_back([&, i] {
      const v1::GenerateRequest request =
          Request(std::string(1 + static_cast<size_t>(i) * 7 % 50, static_cast<char>('a' + i % 26)),
                  1 + static_cast<uint32_t>(i) % 30, static_cast<uint64_t>(i));
      const Answer answer = Generate(request);
      if (answer.status.ok() && answer.ids == Expected(request)) ++right;
    });
  }
  for (std::thread& client : clients) client.join();
  EXPECT_EQ(right, 48);
  for (const auto& worker : workers_) EXPECT_GT(worker->total_calls(), 0);
  ExpectNothingLeft();
}

TEST_F(RouterTest, TextChatAndTokensAreOnePrompt) {
  AddPrefill();
  AddDecode();
  Start();
  v1::GenerateRequest chat = Request("", 10);
  v1::ChatMessage* message = chat.mutable_chat()->add_messages();
  message->set_role("user");
  message->set_content("hi<|end|>");  // a literal in content is no control token
  v1::GenerateRequest ids = Request("", 10);
  for (uint32_t id :
       {kTurn, 20u, 18u, 4u, 17u, kSpace, 7u, 8u, 29u, 30u, 4u, 13u, 3u, 30u, 31u, kEnd, kTurn}) {
    ids.mutable_prompt_token_ids()->add_ids(id);
  }
  const Answer from_chat = Generate(chat);
  const Answer from_ids = Generate(ids);
  ASSERT_TRUE(from_chat.status.ok()) << from_chat.status;
  EXPECT_EQ(from_chat.ids, from_ids.ids);
}

TEST_F(RouterTest, StopStringsEndTheDecodingAtTheWorkerToo) {
  AddPrefill();
  MockWorker& decode = AddDecode();
  decode.Behave({.between_tokens = absl::Milliseconds(5)});
  Start();
  v1::GenerateRequest request = Request("abc", 5000);
  const std::vector<uint32_t> expected = Expected(request);
  request.mutable_sampling_params()->set_skip_special_tokens(false);
  request.mutable_sampling_params()->add_stop(
      std::string(LetterModel().token_table().bytes[expected[5]]));
  const Answer answer = Generate(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.completes[0].finish_reason(), v1::FINISH_REASON_STOP);
  EXPECT_LE(answer.ids.size(), 6u);
  EXPECT_EQ(answer.text.find(answer.completes[0].matched_stop_str()), std::string::npos);
  ExpectNothingLeft();
}

TEST_F(RouterTest, PrefillsOnTheDecodeWorkerWhereToldOrLeftAlone) {
  MockWorker& decode = AddDecode();
  options_.runner.dispatch.placement.disaggregation = Disaggregation::kAuto;
  Start();
  const v1::GenerateRequest request = Request("abc", 10);
  const Answer answer = Generate(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.ids, Expected(request));
  EXPECT_TRUE(answer.completes[0].timings().local_prefill());
  EXPECT_EQ(decode.total_calls(), 1);
}

TEST_F(RouterTest, OneTokenNeedsOnlyThePrefillWorker) {
  AddPrefill();
  MockWorker& decode = AddDecode();
  Start();
  const v1::GenerateRequest request = Request("abc", 1);
  const Answer answer = Generate(request);
  ASSERT_TRUE(answer.status.ok()) << answer.status;
  EXPECT_EQ(answer.ids, Expected(request));
  EXPECT_EQ(decode.total_calls(), 0);
}

TEST_F(RouterTest, CancellingInAnyPhaseReachesBothWorkers) {
  MockWorker& prefill = AddPrefill();
  MockWorker& decode = AddDecode();
  Start();
  const absl::Duration ever = absl::Hours(1);
  struct Phase {
    MockBehaviour prefill, decode;
    std::function<bool()> reached;
  };
  const auto prefilling = [&] { return prefill.active_calls() == 1; };
  for (const Phase& phase :
       {Phase{{}, {.before_accept = ever}, [&] { return decode.active_calls() == 1; }},
        Phase{{.before_first_token = ever}, {}, prefilling},
        Phase{{.before_commit = ever}, {}, prefilling}, Phase{{}, {.between_tokens = ever}, [&] {
                                                                return decode.active_calls() == 1 &&
                                                                       prefill.active_calls() == 0;
                                                              }}}) {
    prefill.Behave(phase.prefill);
    decode.Behave(phase.decode);
    grpc::ClientContext context;
    auto reader = stub_->Generate(&context, Request("abc", 50));
    Eventually(phase.reached);
    context.TryCancel();
    EXPECT_EQ(FromGrpcStatus(reader->Finish()).code(), absl::StatusCode::kCancelled);
    ExpectNothingLeft();
  }
}

TEST_F(RouterTest, TheDeadlineEndsTheRequestOnBothWorkers) {
  MockWorker& prefill = AddPrefill();
  AddDecode();
  Start();
  prefill.Behave({.before_first_token = absl::Hours(1)});
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::milliseconds(300));
  EXPECT_EQ(Generate(Request("abc", 50), &context).status.code(),
            absl::StatusCode::kDeadlineExceeded);
  ExpectNothingLeft();
}

TEST_F(RouterTest, RefusesWhatItsQueueCannotHold) {
  AddPrefill();
  MockWorker& decode = AddDecode();
  options_.admission.requests = 2;
  Start();
  decode.Behave({.before_accept = absl::Hours(1)});
  grpc::ClientContext contexts[2];
  std::vector<std::unique_ptr<grpc::ClientReader<v1::GenerateResponse>>> readers;
  for (grpc::ClientContext& context : contexts) {
    readers.push_back(stub_->Generate(&context, Request("abc", 10)));
  }
  Eventually([&] { return router_->waiting_requests() == 2; });
  const Answer refused = Generate(Request("abc", 10));
  EXPECT_EQ(refused.status.code(), absl::StatusCode::kResourceExhausted) << refused.status;
  EXPECT_EQ(ErrorReason(refused.status), kReasonQueueFull);
  EXPECT_TRUE(RetryDelay(refused.status).has_value());
  for (grpc::ClientContext& context : contexts) context.TryCancel();
  for (auto& reader : readers) reader->Finish();
  decode.Behave({});
  ExpectNothingLeft();
  EXPECT_TRUE(Generate(Request("abc", 10)).status.ok());
}

TEST_F(RouterTest, ASlowClientPausesItsOwnDecodingAndLosesNothing) {
  AddPrefill();
  MockWorker& decode = AddDecode();
  Start();
  v1::GenerateRequest request = Request("abc", 60000);
  request.mutable_sampling_params()->set_logprobs(0);
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, request);
  Eventually([&] { return decode.saw_pause(); });
  EXPECT_TRUE(Generate(Request("xyz", 20)).status.ok()) << "others do not notice";
  Answer answer;
  for (v1::GenerateResponse response; reader->Read(&response);) Collect(response, &answer);
  EXPECT_TRUE(reader->Finish().ok());
  EXPECT_EQ(answer.ids, Expected(request));
  ExpectNothingLeft();
}

TEST_F(RouterTest, AClientThatNeverReadsIsEndedResourceExhausted) {
  AddPrefill();
  AddDecode();
  options_.runner.machine.stall_timeout = absl::Milliseconds(300);
  Start();
  v1::GenerateRequest request = Request("abc", 60000);
  request.mutable_sampling_params()->set_logprobs(0);
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, request);
  Eventually([&] { return workers_[1]->saw_pause() && workers_[1]->active_calls() == 0; });
  for (v1::GenerateResponse response; reader->Read(&response);) continue;
  const absl::Status status = FromGrpcStatus(reader->Finish());
  EXPECT_THAT(status.code(),
              testing::AnyOf(absl::StatusCode::kResourceExhausted, absl::StatusCode::kCancelled))
      << status;
  ExpectNothingLeft();
}

TEST_F(RouterTest, EndsWhatStillRunsWhenItDrains) {
  AddPrefill();
  MockWorker& decode = AddDecode();
  decode.Behave({.between_tokens = absl::Milliseconds(1)});
  Start();
  grpc::ClientContext context;
  auto reader = stub_->Generate(&context, Request("abc", 50000));
  v1::GenerateResponse first;
  ASSERT_TRUE(reader->Read(&first));
  router_->EndAll();
  while (reader->Read(&first)) continue;
  const absl::Status status = FromGrpcStatus(reader->Finish());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorReason(status), kReasonDraining);
  EXPECT_EQ(ErrorReason(Generate(Request("abc", 10)).status), kReasonDraining);
  ExpectNothingLeft();
}

TEST_F(RouterTest, TokenizesAndListsWithoutAWorker) {
  options_.workers.prefill = {"127.0.0.1:1"};
  StartOnly();
  grpc::ClientContext contexts[4];
  v1::TokenizeRequest text;
  text.set_text("ab<|end|>");
  text.set_parse_special(true);
  v1::TokenizeResponse tokens;
  ASSERT_TRUE(stub_->Tokenize(&contexts[0], text, &tokens).ok());
  EXPECT_THAT(tokens.token_ids(), testing::ElementsAre(0, 1, kEnd));
  EXPECT_EQ(tokens.max_model_len(), kContext);
  v1::DetokenizeRequest ids;
  for (uint32_t id : {0u, kEnd, kSpace, 1u}) ids.add_token_ids(id);
  v1::DetokenizeResponse detokenized;
  ASSERT_TRUE(stub_->Detokenize(&contexts[1], ids, &detokenized).ok());
  EXPECT_EQ(detokenized.text(), "a b");
  ids.add_token_ids(kVocab);
  const absl::Status bad = FromGrpcStatus(stub_->Detokenize(&contexts[2], ids, &detokenized));
  ASSERT_EQ(FieldViolations(bad).size(), 1u) << bad;
  EXPECT_EQ(FieldViolations(bad)[0].field, "token_ids[4]");
  v1::ListModelsResponse models;
  ASSERT_TRUE(stub_->ListModels(&contexts[3], {}, &models).ok());
  ASSERT_EQ(models.models_size(), 1);
  EXPECT_EQ(models.models(0).id(), "letters");
  EXPECT_EQ(models.models(0).root(), "letters.gguf");
  EXPECT_EQ(models.models(0).dtype(), "Q4_1");
}

}  // namespace
}  // namespace baton
