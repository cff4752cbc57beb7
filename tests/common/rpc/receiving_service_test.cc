#include "common/rpc/receiving_service.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/server.h"
#include "grpcpp/server_builder.h"
#include "gtest/gtest.h"

#include "baton/v1/generation.grpc.pb.h"
#include "common/rpc/refused_call.h"
#include "tests/support/raw_call.h"
#include "tests/support/raw_client.h"

namespace baton {
namespace {

constexpr absl::Duration kPatience = absl::Seconds(30);

// Answers with what it was asked.
class EchoService final : public ReceivingService<v1::GenerationService> {
 public:
  EchoService(absl::Duration message_timeout, absl::Duration answer_timeout)
      : ReceivingService({.time = message_timeout}, {.time = answer_timeout}) {
    Add("Generate", &EchoService::Generate);
    Add("Tokenize", &EchoService::Tokenize);
  }
  int handled() const { return handled_; }
  int done() const { return done_; }
  int cancelled() const { return cancelled_; }

 private:
  // Writes the prompt twice. Asked for nothing it waits until it is cancelled.
  struct Echo final : grpc::ServerWriteReactor<v1::GenerateResponse> {
    using Base = grpc::ServerWriteReactor<v1::GenerateResponse>;
    Echo(EchoService& service, const std::string& prompt) : service_(service) {
      message_.mutable_chunk()->set_text(prompt);
      if (!prompt.empty()) StartWrite(&message_);
    }
    void OnWriteDone(bool ok) override {
      if (!ok) return Finish(grpc::Status::CANCELLED);
      StartWriteAndFinish(&message_, {}, grpc::Status::OK);
    }
    void OnCancel() override {
      ++service_.cancelled_;
      if (message_.chunk().text().empty()) Finish(grpc::Status::CANCELLED);
    }
    void OnDone() override {
      ++service_.done_;
      delete this;
    }
    EchoService& service_;
    v1::GenerateResponse message_;
  };
  grpc::ServerWriteReactor<v1::GenerateResponse>* Generate(
      grpc::CallbackServerContext*, std::unique_ptr<Received<v1::GenerateRequest>> request) {
    ++handled_;
    if (!request->status.ok()) return new RefusedCall<Echo::Base>(request->status);
    return new Echo(*this, request->message.prompt());
  }
  grpc::ServerUnaryReactor* Tokenize(grpc::CallbackServerContext* context,
                                     std::unique_ptr<Received<v1::TokenizeRequest>> request,
                                     v1::TokenizeResponse* response) {
    ++handled_;
    response->set_max_model_len(static_cast<uint32_t>(request->message.text().size()));
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(ToGrpcStatus(request->status));
    return reactor;
  }

  std::atomic<int> handled_ = 0, done_ = 0, cancelled_ = 0;
};

class ReceivingServiceTest : public ::testing::Test {
 protected:
  void Start(absl::Duration message_timeout = kMessageTimeout,
             absl::Duration answer_timeout = kAnswerTimeout) {
    service_ = std::make_unique<EchoService>(message_timeout, answer_timeout);
    grpc::ServerBuilder builder;
    builder.AddListeningPort("127.0.0.1:0", grpc::InsecureServerCredentials(), &port_);
    builder.RegisterService(service_.get());
    server_ = builder.BuildAndStart();
    channel_ = grpc::CreateChannel("127.0.0.1:" + std::to_string(port_),
                                   grpc::InsecureChannelCredentials());
    stub_ = v1::GenerationService::NewStub(channel_);
  }
  ~ReceivingServiceTest() override {
    server_->Shutdown(std::chrono::system_clock::now());
    server_->Wait();
  }
  static void SetDeadline(grpc::ClientContext& context) {
    context.set_deadline(absl::ToChronoTime(absl::Now() + kPatience));
  }
  // Reads until the server has ended all of `streams`.
  static bool EndsAll(RawClient& client, const std::vector<uint32_t>& streams) {
    for (const absl::Time end = absl::Now() + kPatience; absl::Now() < end; client.Read(10)) {
      if (client.ended() == std::set<uint32_t>(streams.begin(), streams.end())) return true;
    }
    return false;
  }

  std::unique_ptr<EchoService> service_;
  int port_ = 0;
  std::unique_ptr<grpc::Server> server_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::GenerationService::Stub> stub_;
};

std::string Prompt(size_t bytes) {
  v1::GenerateRequest request;
  request.set_prompt(std::string(bytes, 'x'));
  return request.SerializeAsString();
}

TEST_F(ReceivingServiceTest, CallsAreEndedWhoseMessageDoesNotComeWhole) {
  Start(absl::Milliseconds(50));
  RawClient client(port_);
  std::vector<uint32_t> streams;
  for (const char* method : {"Generate", "Tokenize"}) {
    streams.push_back(client.Open("", method));  // not even the first byte
    streams.push_back(client.Open("", method));
    client.SendMessage(streams.back(), Prompt(30000), 15000);
  }
  EXPECT_TRUE(EndsAll(client, streams));
  EXPECT_EQ(service_->handled(), 0);
}

TEST_F(ReceivingServiceTest, CallsAreEndedWhoseClientsDoNotTakeTheEndOfTheAnswer) {
  Start(kMessageTimeout, absl::Milliseconds(50));
  RawClient client(port_);  // lets the server send no byte of an answer
  const uint32_t unary = client.Open("", "Tokenize");
  v1::TokenizeRequest text;
  text.set_text("four");
  client.SendMessage(unary, text.SerializeAsString());
  const uint32_t stream = client.Open("", "Generate");
  client.SendMessage(stream, Prompt(4));
  v1::GenerateResponse first;
  first.mutable_chunk()->set_text("xxxx");
  constexpr size_t kFrameBytes = 5;  // before each message
  client.Grant(stream, static_cast<uint32_t>(kFrameBytes + first.ByteSizeLong()));
  EXPECT_TRUE(EndsAll(client, {unary, stream}));
  EXPECT_EQ(service_->handled(), 2);
}

TEST_F(ReceivingServiceTest, AMessageThatComesInPiecesIsHandledOnce) {
  Start();
  RawClient client(port_);
  const uint32_t stream = client.Open("", "Tokenize");
  v1::TokenizeRequest request;
  request.set_text(std::string(12000, 'x'));
  const std::string message = request.SerializeAsString();
  client.SendMessage(stream, message, 5000);
  client.Read(50);
  EXPECT_EQ(service_->handled(), 0);
  client.Grant(stream, 1 << 10);
  client.SendMessage(stream, message, SIZE_MAX, 5000);
  EXPECT_TRUE(EndsAll(client, {stream}));
  EXPECT_EQ(service_->handled(), 1);
}

TEST_F(ReceivingServiceTest, UnaryAndStreamingMethodsAnswer) {
  Start();
  v1::TokenizeRequest text;
  text.set_text("four");
  v1::TokenizeResponse length;
  grpc::ClientContext unary;
  SetDeadline(unary);
  ASSERT_TRUE(stub_->Tokenize(&unary, text, &length).ok());
  EXPECT_EQ(length.max_model_len(), 4u);

  v1::GenerateRequest request;
  request.set_prompt("twice");
  grpc::ClientContext streaming;
  SetDeadline(streaming);
  const auto reader = stub_->Generate(&streaming, request);
  v1::GenerateResponse response;
  for (int i = 0; i < 2; ++i) {
    ASSERT_TRUE(reader->Read(&response));
    EXPECT_EQ(response.chunk().text(), "twice");
  }
  EXPECT_FALSE(reader->Read(&response));
  EXPECT_TRUE(reader->Finish().ok());
}

TEST_F(ReceivingServiceTest, ACallThatEndsWithoutAMessageIsHandledAsOneThatIsNone) {
  Start();
  for (const char* method : {"Generate", "Tokenize"}) {
    const absl::Status status =
        RawCall(channel_, std::string("/baton.v1.GenerationService/") + method, {}).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
  }
  EXPECT_EQ(service_->handled(), 2);
}

TEST_F(ReceivingServiceTest, ACancelReachesTheHandlersReactor) {
  Start();
  grpc::ClientContext context;
  SetDeadline(context);
  const auto reader = stub_->Generate(&context, v1::GenerateRequest());
  const absl::Time end = absl::Now() + kPatience;
  while (service_->handled() == 0 && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
  context.TryCancel();
  while (service_->done() == 0 && absl::Now() < end) absl::SleepFor(absl::Milliseconds(1));
  EXPECT_EQ(service_->cancelled(), 1);
  EXPECT_EQ(service_->done(), 1);
}

}  // namespace
}  // namespace baton
