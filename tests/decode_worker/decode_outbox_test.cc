#include "decode_worker/decode_outbox.h"

#include <memory>
#include <semaphore>

#include "grpcpp/grpcpp.h"
#include "gtest/gtest.h"

#include "baton/internal/v1/decode.grpc.pb.h"

namespace baton {
namespace {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;

// The worker's end of a call that hears nothing.
class Call final : public DecodeOutbox::Reactor {
 public:
  void OnWriteDone(bool) override { written_.release(); }
  void OnDone() override { done_.release(); }
  void AwaitWrite() { written_.acquire(); }
  void AwaitEnd() { done_.acquire(); }

 private:
  std::binary_semaphore written_{0};
  std::binary_semaphore done_{0};
};

// Answers the one Decode call with `call`.
class Service final : public ReceivingService<internal::v1::DecodeService> {
 public:
  explicit Service(Call& call) : call_(call) { Add("Decode", &Service::Decode); }
  grpc::ServerBidiReactor<Received<DecodeRequest>, DecodeResponse>* Decode(
      grpc::CallbackServerContext*) {
    return &call_;
  }

 private:
  Call& call_;
};

class DecodeOutboxTest : public testing::Test {
 protected:
  DecodeOutboxTest() {
    server_ = grpc::ServerBuilder().RegisterService(&service_).BuildAndStart();
    stub_ = internal::v1::DecodeService::NewStub(server_->InProcessChannel({}));
    stream_ = stub_->Decode(&context_);
  }
  ~DecodeOutboxTest() override {
    if (!ended_) End(absl::OkStatus());
    server_->Shutdown();
  }

  // The message whose write is under way. The next write begins when it is here.
  DecodeResponse Next() {
    DecodeResponse response;
    EXPECT_TRUE(stream_->Read(&response));
    call_.AwaitWrite();
    outbox_.Written();
    return response;
  }
  void Accept() {
    internal::v1::KvShape shape;
    shape.set_layers(30);
    outbox_.PushAccepted(16, shape);
  }
  void PushToken(uint32_t index) {
    internal::v1::OutputToken token;
    token.set_output_index(index);
    outbox_.PushToken(std::move(token));
  }
  // Ends the call, after what is still to be read.
  grpc::Status End(const absl::Status& status) {
    ended_ = true;
    outbox_.End(status);
    outbox_.WriteNext();
    while (!outbox_.finished()) Next();
    call_.AwaitEnd();
    return stream_->Finish();
  }

  Call call_;
  Service service_{call_};
  std::unique_ptr<grpc::Server> server_;
  std::unique_ptr<internal::v1::DecodeService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<DecodeRequest, DecodeResponse>> stream_;
  DecodeOutbox outbox_{call_};
  bool ended_ = false;
};

TEST_F(DecodeOutboxTest, TokensWaitTogetherWhileAMessageIsBeingWritten) {
  Accept();
  for (uint32_t index = 0; index < 3; ++index) PushToken(index);
  EXPECT_EQ(outbox_.waiting_tokens(), 3);
  const internal::v1::DecodeAccepted accepted = Next().accepted();
  EXPECT_EQ(accepted.cached_tokens(), 16u);
  EXPECT_EQ(accepted.shape().layers(), 30u);
  EXPECT_EQ(outbox_.waiting_tokens(), 0) << "they are being written";
  PushToken(3);
  EXPECT_EQ(outbox_.waiting_tokens(), 1);
  const DecodeResponse together = Next();
  ASSERT_EQ(together.tokens().tokens_size(), 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(together.tokens().tokens(i).output_index(), static_cast<uint32_t>(i));
  }
  EXPECT_EQ(Next().tokens().tokens_size(), 1);
}

TEST_F(DecodeOutboxTest, AProgressTakesThePlaceOfOneThatStillWaits) {
  Accept();
  outbox_.PushProgress(64);
  outbox_.PushProgress(128);
  PushToken(0);
  outbox_.PushProgress(192);
  Next();
  EXPECT_EQ(Next().prefill_progress().computed_tokens(), 128u);
  EXPECT_EQ(Next().tokens().tokens_size(), 1);
  EXPECT_EQ(Next().prefill_progress().computed_tokens(), 192u);
}

TEST_F(DecodeOutboxTest, APreemptionIsToldOnceForEachChoiceThatWaits) {
  Accept();
  for (const uint32_t choice : {1, 1, 2, 1}) outbox_.PushPreempted(choice);
  Next();
  for (const uint32_t choice : {1, 2, 1}) {
    const DecodeResponse response = Next();
    ASSERT_TRUE(response.has_preempted());
    EXPECT_EQ(response.preempted().choice(), choice);
  }
  EXPECT_TRUE(End(absl::OkStatus()).ok());
}

TEST_F(DecodeOutboxTest, ASignOfLifeComesWhereNothingElseHasSinceTheLastOne) {
  Accept();
  outbox_.PushAlive();
  EXPECT_TRUE(Next().has_accepted());
  for (int sign = 0; sign < 2; ++sign) {
    outbox_.PushAlive();
    EXPECT_TRUE(Next().has_alive());
  }
  // While a message is being written at most one sign waits.
  PushToken(0);
  for (int sign = 0; sign < 5; ++sign) outbox_.PushAlive();
  EXPECT_EQ(Next().tokens().tokens_size(), 1);
  EXPECT_TRUE(Next().has_alive());
  PushToken(1);
  EXPECT_EQ(Next().tokens().tokens(0).output_index(), 1u);
  EXPECT_TRUE(End(absl::OkStatus()).ok());
}

TEST_F(DecodeOutboxTest, TheEndOfAChoiceSaysWhereItsTimeWentByWhoComputedThePrompt) {
  const SequenceFinished timings{.queue = absl::Seconds(1),
                                 .prefill = absl::Seconds(2),
                                 .decode = absl::Seconds(3),
                                 .preemptions = 4,
                                 .choice = 5};
  outbox_.PushFinished(timings, /*local=*/true, /*exact=*/true);
  outbox_.PushFinished(timings, /*local=*/false, /*exact=*/false);
  const internal::v1::DecodeFinished local = Next().finished();
  EXPECT_EQ(local.prefill_queue().seconds(), 1);
  EXPECT_EQ(local.prefill().seconds(), 2);
  EXPECT_FALSE(local.has_queue());
  EXPECT_EQ(local.decode().seconds(), 3);
  EXPECT_EQ(local.preemptions(), 4u);
  EXPECT_EQ(local.choice(), 5u);
  EXPECT_TRUE(local.exact());
  const internal::v1::DecodeFinished received = Next().finished();
  EXPECT_EQ(received.queue().seconds(), 1);
  EXPECT_FALSE(received.has_prefill_queue() || received.has_prefill());
  EXPECT_FALSE(received.exact());
}

TEST_F(DecodeOutboxTest, ACommitSaysWhetherItIsExact) {
  for (const bool exact : {true, false}) {
    outbox_.PushCommitted(exact);
    const DecodeResponse response = Next();
    ASSERT_TRUE(response.has_committed());
    EXPECT_EQ(response.committed().exact(), exact);
  }
}

TEST_F(DecodeOutboxTest, AGoodEndComesAfterAllThatWaits) {
  Accept();
  PushToken(0);
  outbox_.End(absl::OkStatus());
  PushToken(1);
  EXPECT_EQ(outbox_.waiting_tokens(), 1) << "nothing comes after the end";
  Next();
  EXPECT_FALSE(outbox_.finished());
  EXPECT_EQ(Next().tokens().tokens_size(), 1);
  EXPECT_TRUE(outbox_.finished());
  EXPECT_TRUE(End(absl::OkStatus()).ok());
}

TEST_F(DecodeOutboxTest, AnErrorDropsWhatWaitsButNotWhatIsBeingWritten) {
  Accept();
  PushToken(0);
  outbox_.End(absl::AbortedError("superseded"));
  EXPECT_EQ(outbox_.waiting_tokens(), 0);
  EXPECT_TRUE(Next().has_accepted());
  EXPECT_TRUE(outbox_.finished());
  const grpc::Status status = End(absl::OkStatus());
  EXPECT_EQ(status.error_code(), grpc::StatusCode::ABORTED);
  EXPECT_EQ(status.error_message(), "superseded");
}

}  // namespace
}  // namespace baton
