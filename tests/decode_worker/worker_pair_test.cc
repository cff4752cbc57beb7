// The hand-off between real workers: engines, services and gRPC on loopback, in one process.
#include "tests/decode_worker/worker_pair.h"

#include <random>
#include <thread>

#include "gtest/gtest.h"

#include "common/base/clock.h"
#include "common/protocol/identity_text.h"
#include "common/rpc/status.h"
#include "tests/common/worker/invalid_specs.h"
#include "tests/support/field_violations.h"
#include "tests/support/raw_call.h"

namespace baton {
namespace {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;
using internal::v1::SequenceSpec;

std::vector<int32_t> Prompt(int length, uint32_t seed) {
  std::mt19937 random(seed);
  std::vector<int32_t> ids;
  for (int i = 0; i < length; ++i) ids.push_back(static_cast<int32_t>(random() % 200));
  return ids;
}

SamplingParams Greedy(int max_tokens) {
  SamplingParams sampling;
  sampling.temperature = 0;
  sampling.max_tokens = max_tokens;
  sampling.ignore_eos = true;
  sampling.logprobs = 2;
  return sampling;
}

SamplingParams Seeded(int max_tokens, uint64_t seed) {
  SamplingParams sampling = Greedy(max_tokens);
  sampling.temperature = 1;
  sampling.seed = seed;
  return sampling;
}

void ExpectSameTokens(const HandoffResult& a, const HandoffResult& b) {
  ASSERT_EQ(a.tokens.size(), b.tokens.size());
  for (size_t i = 0; i < a.tokens.size(); ++i) {
    EXPECT_EQ(a.tokens[i].output_index(), i);
    EXPECT_EQ(a.tokens[i].SerializeAsString(), b.tokens[i].SerializeAsString())
        << "token " << i << ": " << a.tokens[i].ShortDebugString() << " and "
        << b.tokens[i].ShortDebugString();
  }
}

TestWorker::Options WithBlocks(int block_size) {
  TestWorker::Options options;
  options.block_size = block_size;
  return options;
}

class WorkerPair : public ::testing::TestWithParam<std::pair<int, int>> {};

TEST_P(WorkerPair, TokensAndLogprobsEqualARunWithoutAHandoff) {
  TestWorker prefill(WithBlocks(GetParam().first));
  TestWorker decode(WithBlocks(GetParam().second));
  TestWorker local(WithBlocks(16));
  std::vector<SequenceSpec> specs;
  uint64_t id = 1;
  for (const int length : {1, 2, 15, 16, 17, 31, 63, 64, 65, 100, 130}) {
    specs.push_back(MakeSpec(Prompt(length, static_cast<uint32_t>(length)), Greedy(12), id++));
    specs.push_back(MakeSpec(Prompt(length, static_cast<uint32_t>(length)), Seeded(9, id), id));
    ++id;
  }
  std::vector<HandoffResult> results(specs.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < specs.size(); ++i) {
    threads.emplace_back([&, i] { results[i] = RunHandoff(prefill, decode, specs[i]); });
  }
  for (std::thread& thread : threads) thread.join();
  for (size_t i = 0; i < specs.size(); ++i) {
    const HandoffResult& result = results[i];
    ASSERT_TRUE(result.decode_status.ok()) << result.decode_status.error_message();
    ASSERT_TRUE(result.prefill_status.ok()) << result.prefill_status.error_message();
    EXPECT_TRUE(result.accepted && result.committed);
    EXPECT_TRUE(result.finished.exact());
    ASSERT_FALSE(result.tokens.empty());
    EXPECT_EQ(result.first_token.SerializeAsString(), result.tokens[0].SerializeAsString());
    const auto& finished = result.prefill_finished;
    const uint64_t token_bytes = prefill.engine().cache().layout().bytes_per_token();
    EXPECT_EQ(finished.bytes_sent() + finished.bytes_saved(),
              token_bytes * static_cast<uint64_t>(specs[i].token_ids_size()));
    EXPECT_EQ(finished.bytes_resent(), 0u);
    ExpectSameTokens(result, RunLocally(local, specs[i]));
  }
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}
INSTANTIATE_TEST_SUITE_P(BlockSizes, WorkerPair,
                         ::testing::Values(std::pair(16, 16), std::pair(16, 32), std::pair(32, 16),
                                           std::pair(48, 32)));

TEST(WorkerPairTest, WhatThePrefillWorkerHasCachedIsPushedWhereTheDecodeWorkerHasItNot) {
  TestWorker prefill(WithBlocks(32));
  TestWorker decode(WithBlocks(16));
  TestWorker other(WithBlocks(16));
  const auto prompt = Prompt(120, 5);
  const HandoffResult first = RunHandoff(prefill, decode, MakeSpec(prompt, Greedy(8), 1));
  const HandoffResult second = RunHandoff(prefill, other, MakeSpec(prompt, Greedy(8), 2));
  ASSERT_TRUE(second.decode_status.ok()) << second.decode_status.error_message();
  EXPECT_EQ(first.prefill_started.cached_tokens(), 0u);
  EXPECT_EQ(second.prefill_started.cached_tokens(), 96u);
  EXPECT_EQ(second.prefill_finished.bytes_sent(), first.prefill_finished.bytes_sent());
  EXPECT_EQ(second.prefill_finished.bytes_resent(), 0u);
  EXPECT_TRUE(second.finished.exact());
  ExpectSameTokens(first, second);
  // What the decode worker received and decoded serves its own prefills.
  ExpectSameTokens(first, RunLocally(decode, MakeSpec(prompt, Greedy(8), 3)));
  EXPECT_EQ(decode.engine().Stats().prompt_tokens_cached, 112u);
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}

std::vector<internal::v1::OutputToken> TokensOf(const HandoffResult& result, uint32_t choice) {
  std::vector<internal::v1::OutputToken> tokens;
  for (const auto& token : result.tokens) {
    if (token.choice() == choice) tokens.push_back(token);
  }
  return tokens;
}

// One of them ends with its first token: the others are handed over all the same.
TEST(WorkerPairTest, ChoicesAreHandedOverTogetherAndEqualThoseComputedAlone) {
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(WithBlocks(32));
  TestWorker local(WithBlocks(16));
  for (const int length : {1, 64, 70}) {
    SCOPED_TRACE(length);
    const auto id = static_cast<uint64_t>(length);
    SequenceSpec spec =
        MakeSpec(Prompt(length, static_cast<uint32_t>(length)), Seeded(9, id), 10 * id);
    spec.mutable_sampling()->set_temperature(20);  // they differ
    std::vector<HandoffResult> alone;
    for (uint32_t choice = 0; choice < 4; ++choice) {
      SequenceSpec one = spec;
      one.mutable_key()->set_choice(choice);
      alone.push_back(RunLocally(local, one));
    }
    const uint32_t ends_second = alone[1].tokens[0].token().token_id();
    spec.mutable_sampling()->add_stop_token_ids(ends_second);
    spec.mutable_sampling()->set_n(4);
    const HandoffResult together = RunHandoff(prefill, decode, spec);
    ASSERT_TRUE(together.decode_status.ok()) << together.decode_status.error_message();
    ASSERT_TRUE(together.prefill_status.ok()) << together.prefill_status.error_message();
    EXPECT_TRUE(together.committed && together.finished.exact());
    EXPECT_EQ(
        std::set<uint32_t>(together.finished_choices.begin(), together.finished_choices.end()),
        (std::set<uint32_t>{0, 1, 2, 3}));
    EXPECT_EQ(together.finished_choices.size(), 4u);
    for (uint32_t choice = 0; choice < 4; ++choice) {
      SCOPED_TRACE(choice);
      const auto tokens = TokensOf(together, choice);
      ASSERT_FALSE(tokens.empty());
      ASSERT_LE(tokens.size(), alone[choice].tokens.size());
      for (size_t i = 0; i < tokens.size(); ++i) {
        EXPECT_EQ(tokens[i].output_index(), i);
        EXPECT_EQ(tokens[i].token().SerializeAsString(),
                  alone[choice].tokens[i].token().SerializeAsString());
        EXPECT_EQ(tokens[i].ends_sequence(), i + 1 == tokens.size());
      }
      const bool stopped = tokens.back().finish_reason() == v1::FINISH_REASON_STOP;
      if (!stopped) {
        EXPECT_EQ(tokens.size(), alone[choice].tokens.size());
      }
      if (choice == 1) {
        EXPECT_EQ(tokens.size(), 1u);
      }
    }
  }
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(WorkerPairTest, AChoiceThatIsStoppedIsAnsweredAndTheOthersGoOn) {
  TestWorker worker(WithBlocks(16));
  SequenceSpec spec = MakeSpec(Prompt(40, 1), Seeded(60, 3), 1);
  spec.mutable_sampling()->set_n(3);
  grpc::ClientContext context;
  auto call = worker.decode().Decode(&context);
  DecodeRequest request;
  *request.mutable_start()->mutable_sequence() = spec;
  request.mutable_start()->set_prefill_locally(true);
  call->Write(request);
  DecodeResponse response;
  std::vector<size_t> tokens(3);
  std::vector<int> finished(3);
  bool stopped = false;
  while (call->Read(&response)) {
    for (const auto& token : response.tokens().tokens()) {
      EXPECT_EQ(finished[token.choice()], 0);
      ++tokens[token.choice()];
    }
    if (response.has_finished()) ++finished[response.finished().choice()];
    if (stopped || tokens[1] < 2) continue;
    stopped = true;
    for (int twice = 0; twice < 2; ++twice) {
      request.mutable_stop()->set_choice(1);
      call->Write(request);
    }
  }
  EXPECT_TRUE(call->Finish().ok());
  EXPECT_EQ(finished, (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(tokens[0], 60u);
  EXPECT_LE(tokens[1], 60u);
  EXPECT_EQ(tokens[2], 60u);
  EXPECT_TRUE(worker.ComesToRest());
}

TEST(WorkerPairTest, AFirstTokenThatEndsTheRequestNeedsNoCommit) {
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(WithBlocks(16));
  const HandoffResult result = RunHandoff(prefill, decode, MakeSpec(Prompt(80, 1), Greedy(1), 1));
  EXPECT_TRUE(result.prefill_status.ok()) << result.prefill_status.error_message();
  EXPECT_TRUE(result.first_token.ends_sequence());
  EXPECT_FALSE(result.committed);
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(WorkerPairTest, APrefillWithoutADecodeWorkerAnswersItsTokenOnly) {
  TestWorker prefill(WithBlocks(16));
  internal::v1::PrefillRequest request;
  *request.mutable_sequence() = MakeSpec(Prompt(80, 1), Greedy(1), 1);
  grpc::ClientContext context;
  auto call = prefill.prefill().Prefill(&context, request);
  internal::v1::PrefillResponse response;
  bool token = false;
  bool finished = false;
  while (call->Read(&response)) {
    token |= response.has_first_token();
    finished |= response.has_finished();
  }
  EXPECT_TRUE(call->Finish().ok());
  EXPECT_TRUE(token && finished);
  EXPECT_TRUE(prefill.ComesToRest());
}

TEST(WorkerPairTest, APushWithoutTheCapabilityIsRefusedAndHurtsNobody) {
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

TEST(WorkerPairTest, AnotherModelIsRefusedWithBothIdentities) {
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

// One decode call, driven message by message.
struct OpenDecode {
  OpenDecode(TestWorker& decode, const SequenceSpec& spec) {
    call = decode.decode().Decode(&context);
    DecodeRequest request;
    *request.mutable_start()->mutable_sequence() = spec;
    call->Write(request);
    accepted = call->Read(&response) && response.has_accepted();
  }
  grpc::Status Drain() {
    while (call->Read(&response)) {
      committed |= response.has_committed();
      tokens += response.tokens().tokens_size();
      finished |= response.has_finished();
    }
    return call->Finish();
  }
  grpc::ClientContext context;
  std::unique_ptr<grpc::ClientReaderWriter<DecodeRequest, DecodeResponse>> call;
  DecodeResponse response;
  bool accepted = false;
  bool committed = false;
  bool finished = false;
  int tokens = 0;
};

TEST(WorkerPairTest, AHigherAttemptEndsALowerOneAndALateLowerOneIsRefused) {
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(WithBlocks(16));
  const auto prompt = Prompt(70, 2);
  OpenDecode first(decode, MakeSpec(prompt, Greedy(4), 1, 1));
  ASSERT_TRUE(first.accepted);
  const HandoffResult second = RunHandoff(prefill, decode, MakeSpec(prompt, Greedy(4), 1, 2));
  EXPECT_TRUE(second.decode_status.ok()) << second.decode_status.error_message();
  EXPECT_EQ(ErrorReason(FromGrpcStatus(first.Drain())), kReasonSuperseded);
  const HandoffResult late = RunHandoff(prefill, decode, MakeSpec(prompt, Greedy(4), 1, 1));
  EXPECT_EQ(ErrorReason(FromGrpcStatus(late.decode_status)), kReasonSuperseded);
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(WorkerPairTest, APrefillThatEndsBeforeItsCommitEndsTheDecodeCall) {
  TestWorker::Options slow = WithBlocks(16);
  slow.receiver_limits.window_bytes = 4096;
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(slow);
  const SequenceSpec spec = MakeSpec(Prompt(200, 2), Greedy(4), 1);
  OpenDecode call(decode, spec);
  ASSERT_TRUE(call.accepted);
  grpc::ClientContext context;
  auto prefilling = prefill.prefill().Prefill(&context, PrefillRequestFor(decode, spec));
  internal::v1::PrefillResponse response;
  ASSERT_TRUE(prefilling->Read(&response));
  context.TryCancel();
  while (prefilling->Read(&response)) {
  }
  EXPECT_FALSE(prefilling->Finish().ok());
  const absl::Status status = FromGrpcStatus(call.Drain());
  if (!call.committed) {
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
    EXPECT_EQ(ErrorReason(status), kReasonKvTransferFailed);
  }
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(WorkerPairTest, CancellingEitherCallAtAnyMomentGivesEveryBlockBack) {
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(WithBlocks(32));
  std::mt19937 random(3);
  for (uint64_t id = 1; id <= 60; ++id) {
    const SequenceSpec spec = MakeSpec(
        Prompt(1 + static_cast<int>(random() % 180), static_cast<uint32_t>(id)), Greedy(60), id);
    grpc::ClientContext decode_context;
    grpc::ClientContext prefill_context;
    auto call = decode.decode().Decode(&decode_context);
    DecodeRequest request;
    *request.mutable_start()->mutable_sequence() = spec;
    call->Write(request);
    const absl::Duration delay = absl::Microseconds(random() % 20000);
    const bool cancel_decode = random() % 2 == 0;
    std::thread canceller([&] {
      absl::SleepFor(delay);
      (cancel_decode ? decode_context : prefill_context).TryCancel();
    });
    DecodeResponse response;
    std::thread prefilling;
    while (call->Read(&response)) {
      if (response.has_accepted()) {
        prefilling = std::thread([&] {
          auto stream =
              prefill.prefill().Prefill(&prefill_context, PrefillRequestFor(decode, spec));
          internal::v1::PrefillResponse prefill_response;
          while (stream->Read(&prefill_response)) {
          }
          // As the router does: nothing else would end a decode call whose push never comes.
          if (!stream->Finish().ok()) decode_context.TryCancel();
        });
      }
    }
    call->Finish();
    prefill_context.TryCancel();
    if (prefilling.joinable()) prefilling.join();
    canceller.join();
  }
  EXPECT_TRUE(prefill.ComesToRest());
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(WorkerPairTest, AStoppedChoiceAnswersFinished) {
  TestWorker prefill(WithBlocks(16));
  TestWorker decode(WithBlocks(16));
  const SequenceSpec spec = MakeSpec(Prompt(30, 2), Greedy(200), 1);
  OpenDecode call(decode, spec);
  ASSERT_TRUE(call.accepted);
  HandoffResult ignored;
  grpc::ClientContext context;
  auto prefilling = prefill.prefill().Prefill(&context, PrefillRequestFor(decode, spec));
  internal::v1::PrefillResponse response;
  while (prefilling->Read(&response)) {
  }
  EXPECT_TRUE(prefilling->Finish().ok());
  DecodeRequest stop;
  stop.mutable_stop()->set_choice(0);
  call.call->Write(stop);
  EXPECT_TRUE(call.Drain().ok());
  EXPECT_TRUE(call.finished);
  EXPECT_TRUE(decode.ComesToRest());
}

TEST(WorkerPairTest, BothWorkersNameAnInvalidFieldOfASequenceInTheSameWay) {
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

TEST(WorkerPairTest, ASequenceThatNeverFitsIsRefusedByField) {
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

TEST(WorkerPairTest, AnAddressThatIsNoneIsRefused) {
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

TEST(WorkerPairTest, WhatCannotBeDecodedEndsTheCallAndSaysSo) {
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

TEST(WorkerPairTest, ADrainingWorkerRefusesWhatIsNew) {
  TestWorker worker(WithBlocks(16));
  worker.decode_service().Drain();
  worker.prefill_service().Drain();
  const HandoffResult result = RunLocally(worker, MakeSpec(Prompt(4, 1), Greedy(4), 1));
  EXPECT_EQ(result.decode_status.error_code(), grpc::StatusCode::UNAVAILABLE);
  EXPECT_EQ(ErrorReason(FromGrpcStatus(result.decode_status)), kReasonDraining);
}

}  // namespace
}  // namespace baton
