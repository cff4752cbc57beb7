// Sender and receiver against each other, over networks good and bad.
#include "tests/decode_worker/handoff_pair/handoff_pair.h"

#include "gtest/gtest.h"

namespace baton {
namespace {

constexpr int kBlockSizes[] = {16, 32, 48};

// Everything about a run but its faults, drawn from its seed.
PairOptions Draw(uint64_t seed) {
  std::mt19937_64 random(seed * 7919);
  PairOptions options;
  options.seed = seed;
  options.tokens = 1 + static_cast<int>(random() % 200);
  const int pages = (options.tokens - 1) / kKvPageTokens;
  if (pages > 0 && random() % 2 == 0) {
    options.cached_by_sender = kKvPageTokens * static_cast<int>(random() % (pages + 1));
  }
  if (pages > 0 && random() % 2 == 0) {
    options.cached_by_receiver = kKvPageTokens * static_cast<int>(random() % (pages + 1));
  }
  options.sender_block_size = kBlockSizes[random() % 3];
  options.receiver_block_size = kBlockSizes[random() % 3];
  options.max_payload_bytes = 256 + random() % 4000;
  options.min_payload_bytes = random() % 1000;
  options.window_bytes = options.max_payload_bytes + random() % 6000;
  options.streams = 1 + static_cast<int>(random() % 4);
  return options;
}

// Layers with windows of one kind or of several, among layers without.
PairOptions DrawWindows(PairOptions options) {
  constexpr int kWindows[] = {0, 1, 16, 30, 65, 100};
  std::mt19937_64 random(options.seed * 15485863);
  for (int layer = 0; layer < 3; ++layer) options.windows.push_back(kWindows[random() % 6]);
  options.windows[random() % 3] = 0;  // else the layers of the largest window count as such
  return options;
}

// Blocks of one side or both in a device's memory, and little room to stage them.
PairOptions DrawStaged(uint64_t seed) {
  PairOptions options = Draw(seed);
  std::mt19937_64 random(seed * 104729);
  if (seed % 3 != 0) options.sender_staging_pages = 1 + static_cast<int>(random() % 20);
  if (seed % 3 != 1) options.receiver_staging_pages = 1 + static_cast<int>(random() % 20);
  return options;
}

TEST(HandoffPair, CommitsTheSameBytesByWayOfStaging) {
  for (uint64_t seed = 0; seed < 250; ++seed) {
    HandoffPair pair(DrawStaged(seed));
    pair.Run();
    ASSERT_TRUE(pair.committed()) << "seed " << seed;
    ASSERT_TRUE(pair.sender_status().has_value());
    ASSERT_TRUE(pair.sender_status()->ok()) << *pair.sender_status();
    ASSERT_EQ(pair.refusals(), 0);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(HandoffPair, CommitsTheSameBytesWhateverTheShapes) {
  uint64_t sent = 0;
  uint64_t resent = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    HandoffPair pair(Draw(seed));
    pair.Run();
    ASSERT_TRUE(pair.committed()) << "seed " << seed;
    ASSERT_TRUE(pair.sender_status().has_value());
    ASSERT_TRUE(pair.sender_status()->ok()) << *pair.sender_status();
    ASSERT_EQ(pair.refusals(), 0);
    // Copies end in any order here: an answer may come so late that it is missed.
    resent += pair.report().bytes_resent;
    sent += pair.report().bytes_sent;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_LT(resent, sent / 100);
}

TEST(HandoffPair, SendsWhatTheReceiverHoldsNotAtAll) {
  PairOptions options = Draw(3);
  options.tokens = 150;
  options.cached_by_sender = 64;
  options.cached_by_receiver = 96;
  HandoffPair pair(options);
  pair.Run();
  ASSERT_TRUE(pair.committed());
  const uint64_t token_bytes = PairLayout(16).bytes_per_token();
  EXPECT_EQ(pair.report().bytes_sent, (150 - 96) * token_bytes);
  EXPECT_EQ(pair.report().bytes_saved, 96 * token_bytes);
}

TEST(HandoffPair, OfALayerWithAWindowOnlyWhatALaterTokenOrTheAuditSeesIsSent) {
  for (uint64_t seed = 0; seed < 600; ++seed) {
    HandoffPair pair(DrawWindows(seed % 2 == 0 ? Draw(seed) : DrawStaged(seed)));
    pair.Run();
    ASSERT_TRUE(pair.committed()) << "seed " << seed;
    ASSERT_TRUE(pair.sender_status()->ok()) << *pair.sender_status();
    ASSERT_EQ(pair.refusals(), 0);
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
}

TEST(HandoffPair, ABrokenPushIsResumedFromItsCheckpointWhateverTheWindows) {
  int resumed = 0;
  int in_the_middle = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    PairOptions options = DrawWindows(Draw(seed));
    options.cut = 2;
    HandoffPair broken(options);
    broken.Run();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    if (broken.committed() || !broken.resume_tokens().has_value()) continue;
    options.cut = 0;
    in_the_middle += *broken.resume_tokens() > options.cached_by_receiver ? 1 : 0;
    const int last_page = (options.tokens - 1) / kKvPageTokens * kKvPageTokens;
    options.cached_by_receiver = std::min(*broken.resume_tokens(), last_page);
    HandoffPair next(options, broken);
    next.Run();
    ASSERT_TRUE(next.committed()) << "seed " << seed;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    ++resumed;
  }
  EXPECT_GT(resumed, 100);
  EXPECT_GT(in_the_middle, 30);
}

TEST(HandoffPair, CountsWhatALayerWithAWindowNeverSendsNeitherAsSentNorAsSaved) {
  PairOptions options = Draw(3);
  options.tokens = 200;
  options.cached_by_sender = 0;
  options.cached_by_receiver = 144;
  options.windows = {16, 0, 40};  // they carry the tokens from 112, 0 and 96 on
  HandoffPair pair(options);
  pair.Run();
  ASSERT_TRUE(pair.committed());
  const uint64_t layer_token_bytes = PairLayout(16).bytes_per_token() / 3;
  EXPECT_EQ(pair.report().bytes_sent, 3 * (200 - 144) * layer_token_bytes);
  EXPECT_EQ(pair.report().bytes_saved, (144 - 112 + 144 + 144 - 96) * layer_token_bytes);
}

TEST(HandoffPair, LosingJoinedStreamsLosesNothing) {
  int losses = 0;
  int used = 0;
  uint64_t resent = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    PairOptions options = Draw(seed);
    options.streams = 2 + static_cast<int>(seed % 15);
    options.max_payload_bytes = 256 + seed % 512;
    options.window_bytes = options.max_payload_bytes * (1 + seed % 8);
    options.cut_joined = 1 + static_cast<int>(seed % 5);
    HandoffPair pair(options);
    pair.Run();
    ASSERT_TRUE(pair.committed()) << "seed " << seed;
    ASSERT_TRUE(pair.sender_status()->ok()) << *pair.sender_status();
    ASSERT_EQ(pair.refusals(), 0) << "seed " << seed;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    losses += pair.faults();
    used += pair.streams_used();
    resent += pair.report().bytes_resent;
  }
  EXPECT_GT(losses, 500);
  EXPECT_GT(used, 1500);
  EXPECT_GT(resent, 0u);
}

TEST(HandoffPair, DuplicatesAndReorderingChangeNothing) {
  int faults = 0;
  for (uint64_t seed = 0; seed < 400; ++seed) {
    PairOptions options = Draw(seed);
    options.window_bytes *= 3;  // doubles count against it
    options.duplicate = 30;
    options.reorder = 30;
    HandoffPair pair(options);
    pair.Run();
    faults += pair.faults();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(faults, 500);
}

TEST(HandoffPair, DamagedMessagesAreSentAgainOrEndThePush) {
  int committed = 0;
  int faults = 0;
  uint64_t resent = 0;
  for (uint64_t seed = 0; seed < 600; ++seed) {
    PairOptions options = Draw(seed);
    options.corrupt = 15;
    HandoffPair pair(options);
    pair.Run();
    faults += pair.faults();
    committed += pair.committed() ? 1 : 0;
    if (pair.committed()) resent += pair.report().bytes_resent;
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
  }
  EXPECT_GT(faults, 300);
  EXPECT_GT(resent, 0u) << "a damaged payload is asked for again";
  EXPECT_GT(committed, 100);
}

TEST(HandoffPair, EndsInBoundedTimeWithOneOwnerUnderEveryFault) {
  int committed = 0;
  int failed = 0;
  for (uint64_t seed = 0; seed < 3600; ++seed) {
    PairOptions options = seed < 3000 ? Draw(seed) : DrawStaged(seed);
    if (seed % 2 == 1) options = DrawWindows(options);
    std::mt19937_64 random(seed);
    const auto chance = [&random](int percent) {
      return random() % 3 == 0 ? static_cast<int>(random() % static_cast<uint64_t>(percent + 1))
                               : 0;
    };
    options.duplicate = chance(40);
    options.reorder = chance(40);
    options.corrupt = chance(20);
    options.drop = chance(10);
    options.cut = chance(3);
    options.cut_joined = chance(3);
    options.cancel_sender = chance(3);
    options.cancel_receiver = chance(3);
    options.finish_at_first_token = random() % 8 == 0;
    HandoffPair pair(options);
    pair.Run();
    ASSERT_FALSE(HasFailure()) << "seed " << seed;
    (pair.committed() ? committed : failed) += 1;
    if (pair.sender_status()->ok() && !options.finish_at_first_token) {
      ASSERT_TRUE(pair.committed()) << "the sender believes what is not so, seed " << seed;
    }
  }
  EXPECT_GT(committed, 500);
  EXPECT_GT(failed, 500);
}

TEST(HandoffPair, AFirstTokenThatEndsTheRequestEndsThePushWell) {
  PairOptions options = Draw(11);
  options.finish_at_first_token = true;
  HandoffPair pair(options);
  pair.Run();
  EXPECT_FALSE(pair.committed());
  ASSERT_TRUE(pair.sender_status().has_value());
  EXPECT_TRUE(pair.sender_status()->ok()) << *pair.sender_status();
}

}  // namespace
}  // namespace baton
