// What a pair of real workers refuses, and how it says so.
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "common/protocol/identity_text.h"
#include "common/protocol/worker_status.h"
#include "common/rpc/status.h"
#include "tests/common/worker/invalid_specs.h"
#include "tests/decode_worker/pair_requests.h"
#include "tests/decode_worker/worker_pair.h"
#include "tests/support/raw_call.h"

namespace baton {
namespace {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;
using internal::v1::SequenceSpec;

TEST(WorkerPairRefusals, APushWithoutTheCapabilityIsRefusedAndHurtsNobody) {
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(WithBlocks(16));
  const SequenceSpec spec = MakeSpec(Prompt(80, 1), Greedy(4), 1);
  grpc::ClientContext context;
  auto call = decode.decode().Decode(&context);
  DecodeRequest request;
  *request.mutable_start()->mutable_sequence() = spec;
  call->Write(request);
  DecodeResponse response;
  ASSERT_TRUE(call->Read(&response));
  ASSERT_TRUE(response.has_accepted());

  const auto run_prefill = [&](const SequenceSpec& with) {
    grpc::ClientContext prefill_context;
    auto prefilling = prefill.prefill().Prefill(&prefill_context, PrefillRequestFor(decode, with));
    internal::v1::PrefillResponse prefill_response;
    while (prefilling->Read(&prefill_response)) {
    }
    return prefilling->Finish();
  };
  SequenceSpec forged = spec;
  forged.set_capability("0123456789abcdef");
  const absl::Status refused = FromGrpcStatus(run_prefill(forged));
  EXPECT_EQ(refused.code(), absl::StatusCode::kUnavailable) << refused;
  EXPECT_EQ(ErrorReason(refused), kReasonKvTransferFailed);
  EXPECT_TRUE(run_prefill(spec).ok());
  bool committed = false;
  while (call->Read(&response)) committed |= response.has_committed();
  EXPECT_TRUE(committed);
  EXPECT_TRUE(call->Finish().ok());
}

TEST(WorkerPairRefusals, AnotherModelIsRefusedWithBothIdentities) {
  TestWorker prefill(WithBlocks(16));
  TestWorker::Options other = WithBlocks(16);
  other.architecture = "qwen2";
  TestWorker decode(other);
  const HandoffResult result = RunHandoff(prefill, decode, [] {
    SequenceSpec spec = MakeSpec(Prompt(20, 1), Greedy(4), 1);
    spec.set_remaining_ms(1500);  // the router would cancel; here the reservation runs out
    return spec;
  }());
  EXPECT_EQ(result.prefill_status.error_code(), grpc::StatusCode::FAILED_PRECONDITION);
  EXPECT_EQ(ErrorReason(FromGrpcStatus(result.prefill_status)), kReasonModelMismatch);
  for (const TestWorker* worker : {&prefill, &decode}) {
    EXPECT_NE(result.prefill_status.error_message().find(IdentityText(worker->identity())),
              std::string::npos)
        << result.prefill_status.error_message();
  }
  EXPECT_FALSE(result.decode_status.ok());
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(WorkerPairRefusals, BothWorkersNameAnInvalidFieldOfASequenceInTheSameWay) {
  TestWorker worker(WithBlocks(16));
  const auto expect = [](const InvalidSpec& invalid, const grpc::Status& status) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::INVALID_ARGUMENT) << invalid.field;
    const auto violations = FieldViolations(FromGrpcStatus(status));
    ASSERT_EQ(violations.size(), 1u) << invalid.field << ": " << status.error_message();
    EXPECT_EQ(violations[0].field, invalid.field);
  };
  for (const InvalidSpec& invalid : InvalidSpecs(worker.engine().options().max_model_len)) {
    SequenceSpec spec = GoodSpec();
    invalid.spoil(spec);
    expect(invalid, RunLocally(worker, spec).decode_status);
    grpc::ClientContext context;
    auto call = worker.prefill().Prefill(&context, PrefillRequestFor(worker, spec));
    internal::v1::PrefillResponse response;
    EXPECT_FALSE(call->Read(&response));
    expect(invalid, call->Finish());
  }
  EXPECT_TRUE(worker.ComesToRest());
}

TEST(WorkerPairRefusals, ASequenceThatNeverFitsIsRefusedByField) {
  TestWorker::Options small = WithBlocks(16);
  small.num_kv_blocks = 8;
  TestWorker worker(small);
  SequenceSpec spec = MakeSpec(Prompt(100, 1), Greedy(4), 1);
  spec.mutable_sampling()->set_n(3);  // six full blocks, and a last one for each choice
  const absl::Status status = FromGrpcStatus(RunLocally(worker, spec).decode_status);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  ASSERT_EQ(FieldViolations(status).size(), 1u) << status;
  EXPECT_EQ(FieldViolations(status)[0].field, "sequence.sampling.n");
}

TEST(WorkerPairRefusals, AnAddressThatThePrefillWorkersFlagsForbidSpeaksAgainstTheLink) {
  TestWorker worker(WithBlocks(16));
  internal::v1::PrefillRequest request =
      PrefillRequestFor(worker, MakeSpec(Prompt(4, 1), Greedy(4), 1));
  request.set_decode_address("192.0.2.9:50051");
  grpc::ClientContext context;
  auto call = worker.prefill().Prefill(&context, request);
  internal::v1::PrefillResponse response;
  EXPECT_FALSE(call->Read(&response));
  const absl::Status status = FromGrpcStatus(call->Finish());
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ErrorReason(status), kReasonKvTransferFailed);
  EXPECT_EQ(PushFaultOf(status), kPushUnprotected);
  EXPECT_NE(status.message().find("192.0.2.9:50051 is beyond loopback"), std::string::npos)
      << status;
  EXPECT_NE(status.message().find("--insecure"), std::string::npos) << "the remedy";
  EXPECT_TRUE(worker.ComesToRest());
}

TEST(WorkerPairRefusals, AnAddressThatIsNoneIsRefused) {
  TestWorker worker(WithBlocks(16));
  internal::v1::PrefillRequest request =
      PrefillRequestFor(worker, MakeSpec(Prompt(4, 1), Greedy(4), 1));
  for (const char* address : {"nonsense", "host:", "1.2.3.4:99999"}) {
    request.set_decode_address(address);
    grpc::ClientContext context;
    auto call = worker.prefill().Prefill(&context, request);
    internal::v1::PrefillResponse response;
    EXPECT_FALSE(call->Read(&response));
    EXPECT_EQ(call->Finish().error_code(), grpc::StatusCode::INVALID_ARGUMENT) << address;
  }
  EXPECT_TRUE(worker.ComesToRest());
}

TEST(WorkerPairRefusals, WhatCannotBeDecodedEndsTheCallAndSaysSo) {
  TestWorker worker({});
  DecodeRequest start;
  *start.mutable_start()->mutable_sequence() = MakeSpec(Prompt(40, 1), Greedy(8), 1);
  start.mutable_start()->mutable_sequence()->mutable_sampling()->add_stop("x");
  std::string spoiled = start.SerializeAsString();
  spoiled[spoiled.find('x')] = '\xff';
  const std::string decode = "/baton.internal.v1.DecodeService/Decode";
  const struct {
    std::string method;
    std::vector<std::string> messages;
    std::string field;
  } cases[] = {
      {decode, {spoiled}, "start.sequence.sampling.stop[0]"},
      {decode, {start.SerializeAsString(), std::string("\x12\x02\x08", 3)}, "flow"},
      {"/baton.internal.v1.PrefillService/Prefill",
       {std::string("\x12\x01\xff", 3)},
       "decode_address"},
  };
  for (const auto& [method, messages, field] : cases) {
    const absl::Status status = RawCall(worker.channel(), method, messages).status;
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << field << ": " << status;
    ASSERT_EQ(FieldViolations(status).size(), 1u) << field << ": " << status;
    EXPECT_EQ(FieldViolations(status)[0].field, field);
  }
  const RawAnswer push = RawCall(worker.channel(), "/baton.internal.v1.KvTransferService/Push",
                                 {std::string("\x0a\x03\x2a\x01\xff", 5)});
  ASSERT_EQ(push.messages.size(), 1u) << push.status;
  internal::v1::PushResponse refusal;
  ASSERT_TRUE(refusal.ParseFromString(push.messages[0]));
  EXPECT_EQ(refusal.refused().detail(), "open.wire_dtype: must be UTF-8, its byte 0 is not");
  EXPECT_TRUE(worker.ComesToRest());
}

TEST(WorkerPairRefusals, ADrainingWorkerRefusesWhatIsNew) {
  TestWorker worker(WithBlocks(16));
  worker.decode_service().Drain();
  worker.prefill_service().Drain();
  const HandoffResult result = RunLocally(worker, MakeSpec(Prompt(4, 1), Greedy(4), 1));
  EXPECT_EQ(result.decode_status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ErrorReason(FromGrpcStatus(result.decode_status)), kReasonDraining);
}

}  // namespace

}  // namespace baton
