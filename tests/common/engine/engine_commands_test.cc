#include "common/engine/engine_commands.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "tests/common/engine/engine_parts.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;
using State = Sequence::State;

class EngineCommandsTest : public testing::Test {
 protected:
  Sequence& Submit(Mode mode, int choices = 1) {
    SequenceRequest request = parts_.Request(20, 10, mode);
    request.choices = choices;
    EXPECT_TRUE(
        parts_.mailbox.Submit({kId, TestSequences::Trust(std::move(request)), absl::UnixEpoch()})
            .ok());
    parts_.commands.Take();
    return *parts_.sequences.Find(kId);
  }
  // A sequence that receives its KV.
  Sequence& Receiving(int choices = 1) {
    Sequence& sequence = Submit(Mode::kReceive, choices);
    parts_.scheduler.Next(64);
    parts_.mailbox.OpenReceive(kId, "");
    parts_.commands.Take();
    return sequence;
  }
  template <class Event>
  const Event& Last() const {
    return std::get<Event>(parts_.events.back());
  }

  static constexpr SequenceId kId = 7;
  EngineParts parts_{/*steps_ahead=*/1};
};

TEST_F(EngineCommandsTest, ASubmittedSequenceWaitsSinceItsSubmission) {
  const Sequence& sequence = Submit(Mode::kLocal);
  EXPECT_EQ(sequence.state(), State::kWaiting);
  EXPECT_EQ(sequence.times.ready, absl::UnixEpoch());
}

TEST_F(EngineCommandsTest, AnOpenedSequenceIsToldItsBlocks) {
  const Sequence& sequence = Receiving();
  EXPECT_EQ(sequence.state(), State::kReceiving);
  EXPECT_EQ(Last<BlocksGranted>().block_table, sequence.blocks.table);
}

TEST_F(EngineCommandsTest, ACommittedSequenceDecodesBehindItsFirstToken) {
  const Sequence& sequence = Receiving();
  parts_.mailbox.Commit(kId, {{.output_index = 0, .token_id = 9}});
  parts_.commands.Take();
  EXPECT_EQ(sequence.state(), State::kRunning);
  EXPECT_EQ(sequence.tokens.ids.back(), 9);
}

TEST_F(EngineCommandsTest, FirstTokensThatDoNotFitEndTheSequence) {
  for (const auto& [tokens, message] :
       std::vector<std::pair<std::vector<OutputToken>, std::string>>{
           {{}, "0 first tokens were sent for 1 choices"},
           {{{.output_index = 1, .token_id = 9}}, "cannot be committed as output 0"},
           {{{.output_index = 0, .token_id = -1}}, "token -1"}}) {
    EngineParts parts(/*steps_ahead=*/0);
    EXPECT_TRUE(
        parts.mailbox.Submit({kId, TestSequences::Trust(parts.Request(20, 10, Mode::kReceive)), {}})
            .ok());
    parts.commands.Take();
    parts.scheduler.Next(64);
    parts.mailbox.OpenReceive(kId, "");
    parts.mailbox.Commit(kId, tokens);
    parts.commands.Take();
    const absl::Status& status = std::get<SequenceFailed>(parts.events.back()).status;
    EXPECT_NE(status.message().find(message), std::string::npos) << status;
    EXPECT_EQ(parts.sequences.Find(kId), nullptr);
  }
}

TEST_F(EngineCommandsTest, AReleaseWaitsForTheStepsInFlight) {
  Submit(Mode::kLocal);
  parts_.pipeline.Run(parts_.scheduler.Next(64));
  EXPECT_FALSE(parts_.pipeline.empty());
  parts_.mailbox.Release(kId);
  parts_.commands.Take();
  EXPECT_TRUE(parts_.pipeline.empty());
  EXPECT_EQ(parts_.TokenIds().size(), 1u) << "its result is still told";
  EXPECT_TRUE(std::holds_alternative<SequenceReleased>(parts_.events.back()));
  EXPECT_EQ(parts_.pool.used_blocks(), 0);
}

TEST_F(EngineCommandsTest, StopsOneChoiceAndPausesTheRest) {
  const Sequence& sequence = Submit(Mode::kLocal, /*choices=*/2);
  parts_.mailbox.SetPaused(kId, true);
  parts_.mailbox.Stop(kId, 0);
  parts_.commands.Take();
  EXPECT_EQ(sequence.choices, std::vector<int>{1});
  EXPECT_TRUE(sequence.paused);
  EXPECT_EQ(Last<SequenceReleased>().timings.choice, 0);
  parts_.mailbox.Stop(kId, 1);
  parts_.commands.Take();
  EXPECT_EQ(parts_.sequences.Find(kId), nullptr);
  EXPECT_EQ(Last<SequenceReleased>().timings.choice, 1);
}

}  // namespace
}  // namespace baton
