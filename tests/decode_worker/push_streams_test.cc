// Pushes of several streams to a real decode worker, by hand, and pairs that do not disturb each
// other.
#include <list>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "baton/internal/v1/kv_transfer.grpc.pb.h"
#include "common/base/crc32c.h"
#include "common/handoff/kv_digest.h"
#include "common/net/channel.h"
#include "common/protocol/worker_status.h"
#include "common/rpc/status.h"
#include "tests/decode_worker/worker_pair.h"
#include "tests/prefill_worker/fake_decode_worker.h"

namespace baton {
namespace {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;
using internal::v1::KvTransferService;
using internal::v1::PushRefused;
using internal::v1::PushRequest;
using internal::v1::PushResponse;
using internal::v1::SequenceSpec;

SequenceSpec Spec(int tokens, uint64_t id) {
  std::vector<int32_t> ids;
  for (int i = 0; i < tokens; ++i) ids.push_back(i * 7 % 200);
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = 6;
  sampling.ignore_eos = true;
  return MakeSpec(ids, sampling, id);
}

// A Decode call that waits for its push.
struct WaitingDecode {
  WaitingDecode(TestWorker& decode, const SequenceSpec& spec) {
    call = decode.decode().Decode(&context);
    DecodeRequest request;
    *request.mutable_start()->mutable_sequence() = spec;
    call->Write(request);
    DecodeResponse response;
    EXPECT_TRUE(call->Read(&response) && response.has_accepted());
  }
  absl::Status End() {
    DecodeResponse response;
    while (call->Read(&response)) {
    }
    return FromGrpcStatus(call->Finish());
  }
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<DecodeRequest, DecodeResponse>> call;
};

// One stream of a push, on a connection of its own.
struct Stream {
  explicit Stream(TestWorker& decode) {
    auto channel = MakeChannel(decode.address(), Credentials::Loopback(), ChannelPurpose::kBulk);
    EXPECT_TRUE(channel.ok()) << channel.status();
    stub = KvTransferService::NewStub(*channel);
    call = stub->Push(&context);
  }
  PushResponse Ask(const PushRequest& request) {
    PushResponse response;
    EXPECT_TRUE(call->Write(request));
    EXPECT_TRUE(call->Read(&response));
    return response;
  }
  std::unique_ptr<KvTransferService::Stub> stub;
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<PushRequest, PushResponse>> call;
};

PushRequest OpenFor(TestWorker& decode, const SequenceSpec& spec) {
  PushRequest request;
  auto& open = *request.mutable_open();
  *open.mutable_key() = spec.key();
  open.set_capability(spec.capability());
  *open.mutable_identity() = decode.identity();
  *open.mutable_shape() = decode.shape();
  open.set_wire_dtype(decode.shape().dtype());
  open.set_token_count(static_cast<uint32_t>(spec.token_ids_size()));
  const std::vector<int32_t> ids(spec.token_ids().begin(), spec.token_ids().end());
  const auto hashes =
      PageHashes(decode.identity(), spec.cache_salt(), decode.shape().numerics(), ids);
  open.mutable_page_hashes()->Add(hashes.begin(), hashes.end());
  return request;
}

PushRequest JoinFor(const SequenceSpec& spec) {
  PushRequest request;
  *request.mutable_join()->mutable_key() = spec.key();
  request.mutable_join()->set_capability(spec.capability());
  return request;
}

// Zeros for one page of a layer.
PushRequest PageFor(TestWorker& decode, const SequenceSpec& spec, uint32_t layer,
                    uint64_t sequence_number) {
  const KvLayout layout = decode.engine().cache().layout();
  PushRequest request;
  auto& header = *request.mutable_data()->mutable_header();
  *header.mutable_key() = spec.key();
  header.set_sequence_number(sequence_number);
  header.set_first_layer(layer);
  header.set_layer_count(1);
  header.set_token_count(kKvPageTokens);
  header.set_state_kind(internal::v1::LAYER_STATE_KIND_ROWS);
  header.set_kv_head_count(static_cast<uint32_t>(layout.kv_heads));
  std::string& payload = *request.mutable_data()->mutable_payload();
  payload.resize(2 * size_t{kKvPageTokens} * layout.row_bytes());
  header.add_page_crc32c(Crc32c(payload.data(), payload.size()));
  const std::string bytes = header.SerializeAsString();
  request.mutable_data()->set_header_crc32c(Crc32c(bytes.data(), bytes.size()));
  return request;
}

TEST(PushStreams, JoinAuthenticatedStreamsAndRefuseOthersByName) {
  TestWorker decode({});
  const SequenceSpec spec = Spec(40, 1);
  WaitingDecode attempt(decode, spec);
  const auto refusal = [&](const PushRequest& first) {
    Stream stream(decode);
    const PushResponse response = stream.Ask(first);
    PushResponse more;
    EXPECT_FALSE(stream.call->Read(&more)) << "a stream that is turned away ends";
    EXPECT_TRUE(stream.call->Finish().ok());
    return response.refused().reason();
  };
  EXPECT_EQ(refusal(JoinFor(spec)), PushRefused::REASON_UNKNOWN_ATTEMPT) << "nothing is open";
  Stream push(decode);
  EXPECT_TRUE(push.Ask(OpenFor(decode, spec)).has_opened());
  PushRequest forged = JoinFor(spec);
  forged.mutable_join()->set_capability("0123456789abcdef");
  EXPECT_EQ(refusal(forged), PushRefused::REASON_CAPABILITY);
  forged = JoinFor(spec);
  forged.mutable_join()->mutable_key()->set_attempt(2);
  EXPECT_EQ(refusal(forged), PushRefused::REASON_UNKNOWN_ATTEMPT);
  EXPECT_EQ(refusal(PageFor(decode, spec, 0, 1)), PushRefused::REASON_OUT_OF_RANGE);

  Stream joined(decode);
  joined.call->Write(JoinFor(spec));
  EXPECT_EQ(joined.Ask(PageFor(decode, spec, 0, 1)).ack().sequence_number(), 1u);
  EXPECT_EQ(push.Ask(PageFor(decode, spec, 1, 2)).ack().sequence_number(), 2u);

  joined.context.TryCancel();  // only this stream is lost
  EXPECT_FALSE(joined.call->Finish().ok());
  EXPECT_EQ(push.Ask(PageFor(decode, spec, 0, 3)).ack().sequence_number(), 3u) << "once more";
  push.context.TryCancel();  // with it the push
  EXPECT_FALSE(push.call->Finish().ok());
  const absl::Status status = attempt.End();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  EXPECT_EQ(ErrorReason(status), kReasonKvTransferFailed);
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(PushStreams, APushThatTheDecodeWorkerHasNoRoomForKeepsTheReasonAndNamesNoBrokenTransfer) {
  TestWorker prefill({});
  TestWorker::Options full;
  full.max_streams = 0;
  TestWorker decode(full);
  HandoffCalls calls(&prefill, decode, Spec(40, 1));
  const HandoffResult result = calls.Run({.on_prefill_end = [&](const grpc::Status&) {
    calls.CancelDecode();  // as the router does
  }});
  const absl::Status status = FromGrpcStatus(result.prefill_status);
  EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
  ASSERT_TRUE(GetErrorInfo(status).has_value());
  EXPECT_EQ(GetErrorInfo(status)->reason, kReasonWorkerFull);
  EXPECT_EQ(GetErrorInfo(status)->stage, kStageTransfer);
  EXPECT_TRUE(RetryDelay(status).has_value());
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}

// Streams that stay open and say nothing.
struct SilentClients {
  SilentClients(TestWorker& decode, int count) {
    for (int i = 0; i < count; ++i) {
      decodes.push_back(decode.decode().Decode(&contexts.emplace_back()));
      pushes.push_back(std::make_unique<Stream>(decode));
    }
  }
  std::list<grpc::ClientContext> contexts;
  std::vector<std::unique_ptr<grpc::ClientReaderWriter<DecodeRequest, DecodeResponse>>> decodes;
  std::vector<std::unique_ptr<Stream>> pushes;
};

TEST(PushStreams, SilentStreamsTakeNobodysPlace) {
  TestWorker prefill({});
  TestWorker::Options narrow;
  narrow.max_calls = 1;
  narrow.max_streams = 3;  // those of one push
  narrow.silent = {.time = absl::Hours(1), .streams = 4};
  TestWorker decode(narrow);
  const SilentClients silent(decode, 5);
  // The others are there when the oldest has made room for them.
  EXPECT_EQ(silent.decodes[0]->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  EXPECT_EQ(silent.pushes[0]->call->Finish().error_code(), grpc::StatusCode::RESOURCE_EXHAUSTED);
  const HandoffResult result = RunHandoff(prefill, decode, Spec(40, 1));
  EXPECT_TRUE(result.decode_status.ok()) << result.decode_status.error_message();
}

TEST(PushStreams, ASilentStreamIsEndedAndToldWhy) {
  TestWorker::Options impatient;
  impatient.silent = {.time = absl::Milliseconds(1)};
  TestWorker decode(impatient);
  const SilentClients silent(decode, 1);
  for (const grpc::Status& status :
       {silent.decodes.front()->Finish(), silent.pushes.front()->call->Finish()}) {
    EXPECT_EQ(status.error_code(), grpc::StatusCode::DEADLINE_EXCEEDED);
    EXPECT_THAT(status.error_message(), ::testing::HasSubstr("first message did not come"));
  }
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(PushStreams, APushToAWorkerThatEndsItsCallsToDrainIsToldSo) {
  TestWorker decode({});
  const SequenceSpec spec = Spec(40, 1);
  WaitingDecode attempt(decode, spec);
  Stream push(decode);
  EXPECT_TRUE(push.Ask(OpenFor(decode, spec)).has_opened());
  decode.EndAll(DrainingStatus("d", kStageDecode));
  PushResponse response;
  EXPECT_TRUE(push.call->Read(&response));
  EXPECT_EQ(response.refused().reason(), PushRefused::REASON_DRAINING);
  EXPECT_EQ(ErrorReason(attempt.End()), kReasonDraining);
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(PushStreams, ASilentPushDelaysNoOtherPairOnEitherSide) {
  TestWorker prefill({});
  TestWorker decode({});
  TestWorker local({});
  // One push that stands still at the decode worker, one at the prefill worker.
  const SequenceSpec silent = Spec(100, 1);
  WaitingDecode attempt(decode, silent);
  Stream push(decode);
  Stream joined(decode);
  EXPECT_TRUE(push.Ask(OpenFor(decode, silent)).has_opened());
  joined.call->Write(JoinFor(silent));
  EXPECT_TRUE(joined.Ask(PageFor(decode, silent, 0, 1)).has_ack());
  FakeDecodeWorker stalled({.stall = true, .reads_bytes = 0});
  auto request = PrefillRequestFor(decode, Spec(100, 2));
  request.set_decode_address(stalled.address());
  grpc::ClientContext stalled_context;
  auto stalled_prefill = prefill.prefill().Prefill(&stalled_context, request);
  while (!stalled.stalled()) absl::SleepFor(absl::Milliseconds(1));

  const SequenceSpec spec = Spec(130, 3);
  const HandoffResult result = RunHandoff(prefill, decode, spec);
  EXPECT_TRUE(result.decode_status.ok()) << result.decode_status.error_message();
  EXPECT_TRUE(result.prefill_status.ok()) << result.prefill_status.error_message();
  const HandoffResult wanted = RunLocally(local, spec);
  ASSERT_EQ(result.tokens.size(), wanted.tokens.size());
  for (size_t i = 0; i < wanted.tokens.size(); ++i) {
    EXPECT_EQ(result.tokens[i].SerializeAsString(), wanted.tokens[i].SerializeAsString());
  }

  // Both stand still as before, and give everything back when they are ended.
  EXPECT_GT(decode.engine().Stats().used_blocks, 0);
  EXPECT_GT(prefill.engine().Stats().used_blocks, 0);
  EXPECT_EQ(push.Ask(PageFor(decode, silent, 1, 2)).ack().sequence_number(), 2u);
  push.context.TryCancel();
  EXPECT_FALSE(attempt.End().ok());
  stalled_context.TryCancel();
  internal::v1::PrefillResponse response;
  while (stalled_prefill->Read(&response)) {
  }
  EXPECT_FALSE(stalled_prefill->Finish().ok());
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}

}  // namespace
}  // namespace baton
