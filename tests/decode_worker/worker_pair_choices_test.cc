// Several choices of one request, between real workers.
#include <vector>

#include "gtest/gtest.h"

#include "tests/decode_worker/pair_requests.h"
#include "tests/decode_worker/worker_pair.h"

namespace baton {
namespace {

using internal::v1::DecodeRequest;
using internal::v1::DecodeResponse;
using internal::v1::SequenceSpec;

std::vector<internal::v1::OutputToken> TokensOf(const HandoffResult& result, uint32_t choice) {
  std::vector<internal::v1::OutputToken> tokens;
  for (const auto& token : result.tokens) {
    if (token.choice() == choice) tokens.push_back(token);
  }
  return tokens;
}

// One of them ends with its first token: the others are handed over all the same.
TEST(WorkerPairChoices, ChoicesAreHandedOverTogetherAndEqualThoseComputedAlone) {
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

TEST(WorkerPairChoices, AChoiceThatIsStoppedIsAnsweredAndTheOthersGoOn) {
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

TEST(WorkerPairChoices, AStoppedChoiceAnswersFinished) {
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

}  // namespace

}  // namespace baton
