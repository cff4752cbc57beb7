#include "router/http/output_queue.h"

#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// A queue before one end of a socket, whose other end the test reads.
class OutputQueueTest : public testing::Test {
 protected:
  OutputQueueTest() {
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends_), 0);
  }
  ~OutputQueueTest() override {
    close(ends_[0]);
    close(ends_[1]);
  }

  OutputQueue::Written Note(const std::string& what) {
    return [this, what](bool ok) { heard_.push_back(what + (ok ? " is written" : " is lost")); };
  }
  ByteStream::Result Flush() {
    ByteStream stream(ends_[0], nullptr);
    return queue_.Flush(stream);
  }
  // All that has arrived.
  std::string Read() {
    std::string all, part(size_t{1} << 16, '\0');
    for (ssize_t bytes = 0; (bytes = read(ends_[1], part.data(), part.size())) > 0;) {
      all.append(part, 0, static_cast<size_t>(bytes));
    }
    return all;
  }

  int ends_[2] = {-1, -1};
  OutputQueue queue_;
  std::vector<std::string> heard_;
};

// More than a socket takes.
constexpr size_t kManyBytes = size_t{8} << 20;

TEST_F(OutputQueueTest, WritesInOrderAndTellsWhoWaits) {
  EXPECT_TRUE(queue_.empty());
  queue_.Append("ab", Note("ab"));
  queue_.Append("c", nullptr);
  queue_.Append("d", Note("d"));
  EXPECT_FALSE(queue_.empty());
  EXPECT_THAT(heard_, IsEmpty());
  EXPECT_EQ(Flush().bytes, 4u);
  EXPECT_TRUE(queue_.empty());
  EXPECT_EQ(Read(), "abcd");
  EXPECT_THAT(heard_, ElementsAre("ab is written", "d is written"));
}

TEST_F(OutputQueueTest, TellsOnlyOfBytesThatAreThrough) {
  queue_.Append("a", Note("a"));
  queue_.Append(std::string(kManyBytes, 'b'), Note("b"));
  std::string read;
  while (!queue_.empty()) {
    EXPECT_NE(Flush().outcome, ByteStream::Outcome::kBroken);
    if (!queue_.empty()) {
      EXPECT_THAT(heard_, ElementsAre("a is written"));
    }
    read += Read();
  }
  EXPECT_EQ(read, "a" + std::string(kManyBytes, 'b'));
  EXPECT_THAT(heard_, ElementsAre("a is written", "b is written"));
}

TEST_F(OutputQueueTest, WhoHearsMayAppendWhatComesNext) {
  queue_.Append("a", [this](bool) { queue_.Append("b", Note("b")); });
  Flush();
  EXPECT_FALSE(queue_.empty());
  Flush();
  EXPECT_EQ(Read(), "ab");
  EXPECT_THAT(heard_, ElementsAre("b is written"));
}

TEST_F(OutputQueueTest, ShortAndLongPiecesComeInTheirOrder) {
  std::string expected;
  for (const size_t size : {1, 20000, 2, 0, 16384, 3, 16000, 384, 1, 300000, 5}) {
    const std::string piece(size, static_cast<char>('a' + expected.size() % 26));
    queue_.Append(piece, nullptr);
    expected += piece;
  }
  std::string read;
  while (!queue_.empty()) {
    EXPECT_NE(Flush().outcome, ByteStream::Outcome::kBroken);
    read += Read();
  }
  EXPECT_EQ(read, expected);
}

TEST_F(OutputQueueTest, LongTextsOfSharedPartsComeInTheirOrder) {
  absl::Cord shared;
  for (int i = 0; i < 50; ++i) shared.Append(std::string(9999, static_cast<char>('a' + i % 26)));
  absl::Cord twice = shared;
  twice.Append("between");
  twice.Append(shared);
  queue_.Append("before", nullptr);
  queue_.Append(twice, Note("twice"));
  queue_.Append(absl::Cord(), Note("nothing"));
  queue_.Append("after", Note("after"));
  std::string read;
  while (!queue_.empty()) {
    EXPECT_NE(Flush().outcome, ByteStream::Outcome::kBroken);
    read += Read();
  }
  EXPECT_EQ(read, "before" + std::string(twice) + "after");
  EXPECT_THAT(heard_, ElementsAre("twice is written", "nothing is written", "after is written"));
}

TEST_F(OutputQueueTest, AFailureDropsEverythingAndIsTold) {
  queue_.Append(std::string(kManyBytes, 'a'), Note("a"));
  queue_.Append("b", Note("b"));
  Flush();
  EXPECT_FALSE(queue_.empty());
  queue_.Fail();
  EXPECT_TRUE(queue_.empty());
  EXPECT_THAT(heard_, ElementsAre("a is lost", "b is lost"));
  Read();
  queue_.Append("c", Note("c"));
  Flush();
  EXPECT_EQ(Read(), "c");
  EXPECT_EQ(heard_.back(), "c is written");
}

}  // namespace
}  // namespace baton
