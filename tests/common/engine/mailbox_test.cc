#include "common/engine/mailbox.h"

#include <gtest/gtest.h>

#include <thread>

#include "tests/common/engine/test_sequences.h"

namespace baton {
namespace {

absl::Status Submit(Mailbox& mailbox, SequenceId id) {
  return mailbox.Submit({id, TestSequences::Trust({}), absl::Time()});
}

TEST(Mailbox, CountsAsWaitingUntilAdmittedHoweverOftenItIsEmptied) {
  Mailbox mailbox(2);
  EXPECT_TRUE(Submit(mailbox, 1).ok());
  EXPECT_TRUE(Submit(mailbox, 2).ok());
  EXPECT_EQ(mailbox.Take().submissions.size(), 2u);
  EXPECT_EQ(Submit(mailbox, 3).code(), absl::StatusCode::kResourceExhausted);
  mailbox.Admitted();
  EXPECT_TRUE(Submit(mailbox, 3).ok());
}

TEST(Mailbox, AsksOncePerLivingSequenceAndDropsWhatIsForOthers) {
  Mailbox mailbox(2);
  ASSERT_TRUE(Submit(mailbox, 7).ok());
  mailbox.Take();
  for (int i = 0; i < 1000; ++i) {
    mailbox.SetPaused(7, i % 2 == 0);
    mailbox.SetPaused(8, true);
    mailbox.Release(static_cast<SequenceId>(100 + i));
  }
  mailbox.Commit(7, {{.token_id = 5}});
  const Mailbox::Contents contents = mailbox.Take();
  ASSERT_EQ(contents.controls.size(), 1u);
  const Mailbox::Control& control = contents.controls.at(7);
  EXPECT_EQ(control.paused, false) << "the last word counts";
  EXPECT_EQ(control.commit->front().token_id, 5);
  EXPECT_FALSE(control.release);
}

TEST(Mailbox, AReleaseThatLeavesSomethingForTheNextAttemptIsNotTakenBackByAnother) {
  Mailbox mailbox(2);
  ASSERT_TRUE(Submit(mailbox, 7).ok());
  mailbox.Release(7, 32);
  mailbox.Release(7);
  const Mailbox::Control control = mailbox.Take().controls.at(7);
  EXPECT_TRUE(control.release);
  EXPECT_EQ(control.resume_tokens, 32);
}

TEST(Mailbox, ForgetsWhatWasAskedOfASequenceThatEnded) {
  Mailbox mailbox(2);
  ASSERT_TRUE(Submit(mailbox, 7).ok());
  mailbox.Take();
  mailbox.Release(7);
  mailbox.Ended(7);
  EXPECT_TRUE(mailbox.Take().controls.empty());
  mailbox.Release(7);
  EXPECT_TRUE(mailbox.Take().controls.empty());
}

TEST(Mailbox, WaitReturnsForMailAndForWake) {
  Mailbox mailbox(10);
  ASSERT_TRUE(Submit(mailbox, 1).ok());
  mailbox.Wait(absl::Hours(1));
  mailbox.Take();
  std::thread waker([&] { mailbox.Wake(); });
  mailbox.Wait(absl::Hours(1));
  waker.join();
  mailbox.Wait(absl::Milliseconds(1));  // the wake is used up
}

}  // namespace
}  // namespace baton
