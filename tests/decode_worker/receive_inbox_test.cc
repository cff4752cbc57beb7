#include "decode_worker/receive_inbox.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

TEST(ReceiveInbox, HasPlacesForItsOwnMessagesHoweverManyComeFromStreams) {
  ReceiveInbox inbox(/*staging_slots=*/2);
  EXPECT_FALSE(inbox.lost());
  for (int i = 0; i < 10000; ++i) inbox.PostFromStream(ReceiveEvent::StreamLost{1});
  EXPECT_TRUE(inbox.lost());
  EXPECT_TRUE(inbox.Post(ReceiveInbox::Grant{}));
  for (uint64_t piece = 0; piece < 2; ++piece) {
    EXPECT_TRUE(inbox.Post(StagedCopier::Event(StagedCopier::Copied{piece})));
  }
  EXPECT_TRUE(inbox.Post(ReceiveEvent::Cancelled{}));
}

TEST(ReceiveInbox, AfterCloseTakesNothingAndLosesNothing) {
  ReceiveInbox inbox(/*staging_slots=*/0);
  EXPECT_TRUE(inbox.Post(ReceiveEvent::Cancelled{}));
  inbox.Close();
  EXPECT_FALSE(inbox.Post(ReceiveEvent::Cancelled{}));
  inbox.PostFromStream(ReceiveEvent::StreamLost{1});
  EXPECT_FALSE(inbox.lost());
  EXPECT_TRUE(inbox.Next(absl::ZeroDuration()).has_value());
  EXPECT_FALSE(inbox.Next(absl::ZeroDuration()).has_value());
}

}  // namespace
}  // namespace baton
