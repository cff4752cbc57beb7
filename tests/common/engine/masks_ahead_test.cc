#include "common/engine/masks_ahead.h"

#include <gtest/gtest.h>

#include <optional>
#include <utility>

#include "absl/synchronization/notification.h"

#include "tests/common/engine/engine_parts.h"
#include "tests/common/grammar/tiny_grammars.h"

namespace baton {
namespace {

using Mode = SequenceRequest::Mode;

Sequence& AddHeld(EngineParts& parts, int tokens, Mode mode = Mode::kLocal) {
  SequenceRequest request = parts.Request(tokens, 30, mode);
  request.grammar = TinyRegex("[0-9]{3}[a-c]{9}");
  return parts.sequences.Add(1, TestSequences::Trust(std::move(request)));
}

TEST(MasksOfChunks, AreThereBeforeTheStep) {
  for (const Mode mode : {Mode::kLocal, Mode::kPrefillOnly}) {
    for (const int tokens : {1, 20}) {
      EngineParts parts(0);
      Sequence& sequence = AddHeld(parts, tokens, mode);
      EXPECT_TRUE(parts.scheduler.Next(128).batch.empty()) << "no mask yet";
      parts.masks.Prepare();
      EXPECT_FALSE(sequence.tokens.form->mask.empty());
      const Schedule schedule = parts.scheduler.Next(128);
      ASSERT_EQ(schedule.batch.size(), 1u);
      EXPECT_TRUE(schedule.batch[0].produces_token);
    }
  }
}

TEST(MasksOfChunks, LetTheChunksBeforeTheLastOneGoOn) {
  EngineParts parts(0);
  AddHeld(parts, 100);
  Schedule schedule = parts.scheduler.Next(128);
  ASSERT_EQ(schedule.batch.size(), 1u);
  EXPECT_EQ(schedule.batch[0].token_count, 64);
  EXPECT_FALSE(schedule.batch[0].produces_token);
  parts.pipeline.Run(std::move(schedule));
  EXPECT_TRUE(parts.scheduler.Next(128).batch.empty());
  EXPECT_EQ(parts.scheduler.CountSequences().runnable, 0);
  schedule = parts.Next(128);
  ASSERT_EQ(schedule.batch.size(), 1u);
  EXPECT_EQ(schedule.batch[0].token_count, 36);
}

TEST(MasksOfDecodes, AreMadeInTheStep) {
  EngineParts parts(0);
  const Sequence& sequence = AddHeld(parts, 20);
  parts.pipeline.Run(parts.Next(128));
  ASSERT_EQ(parts.TokenIds().size(), 1u);
  const Schedule schedule = parts.Next(128);
  EXPECT_EQ(schedule.batch.size(), 1u);
  EXPECT_TRUE(sequence.tokens.form->mask.empty());
}

TEST(MasksOfSlowForms, AreMadeElsewhereAndThenTheSequenceGoesOn) {
  EngineParts parts(0);
  absl::Notification done;
  MasksAhead masks(absl::ZeroDuration(), parts.sequences, [&] { done.Notify(); });
  const Sequence& sequence = AddHeld(parts, 20);
  masks.Prepare();
  EXPECT_TRUE(parts.scheduler.Next(128).batch.empty());
  done.WaitForNotification();
  masks.Prepare();
  EXPECT_EQ(masks.under_way(), 0);
  EXPECT_FALSE(sequence.tokens.form->mask.empty());
  EXPECT_EQ(parts.scheduler.Next(128).batch.size(), 1u);
}

// One that is to be received needs no mask before its first token is there.
TEST(MasksAhead, AreNotMadeBeforeTheKvIsThere) {
  EngineParts parts(0);
  const Sequence& sequence = AddHeld(parts, 20, Mode::kReceive);
  parts.masks.Prepare();
  parts.scheduler.Next(128);
  parts.masks.Prepare();
  EXPECT_TRUE(sequence.tokens.form->mask.empty());
}

}  // namespace
}  // namespace baton
