// Tests of the participants of `baton bench transfer`, each with two real processes.
#include "bench/transfer/transfer_bench.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/time/clock.h"

namespace baton {
namespace {

TransferCase SmallCase() {
  auto transfer = TransferCaseFor("smollm2-135m", 3 << 20);
  EXPECT_TRUE(transfer.ok()) << transfer.status();
  transfer->chunk_tokens = 64;
  return *transfer;
}

void ExpectSamples(const absl::StatusOr<std::vector<TransferSample>>& samples, size_t count) {
  ASSERT_TRUE(samples.ok()) << samples.status();
  ASSERT_EQ(samples->size(), count);
  for (const TransferSample& sample : *samples) {
    EXPECT_EQ(sample.bytes, SmallCase().bytes());
    EXPECT_GT(sample.seconds, 0);
    EXPECT_GT(sample.cpu_seconds, 0);
  }
}

TEST(TransferCaseFor, IsWholeBlocksOfTheShapeAndNoMoreThanAsked) {
  const auto llama = TransferCaseFor("llama-3.1-8b", uint64_t{512} << 20);
  ASSERT_TRUE(llama.ok());
  EXPECT_EQ(llama->layout.bytes_per_token(), 131072u);
  EXPECT_EQ(llama->tokens, 4096);
  const TransferCase small = SmallCase();
  EXPECT_EQ(small.layout.bytes_per_token(), 23040u);
  EXPECT_EQ(small.tokens, 128);
  EXPECT_FALSE(TransferCaseFor("smollm2-135m", 23040 * 32 - 1).ok());
  EXPECT_FALSE(TransferCaseFor("gpt-5", 1 << 30).ok());
}

TEST(MeasureKvPush, MovesTheCacheWithEachSizeOfMessagesAndNumberOfConnections) {
  ExpectSamples(MeasureKvPush(SmallCase(), {{.message_bytes = {}, .connections = 1},
                                            {.message_bytes = 16 << 10, .connections = 1},
                                            {.message_bytes = 1 << 20, .connections = 3}}),
                3);
}

TEST(MeasureKvPush, MovesTheCacheInTheTypeThatIsAskedFor) {
  for (const char* wire : {"int8", "f32"}) {
    TransferCase transfer = SmallCase();
    ASSERT_TRUE(SetWireType(wire, transfer).ok());
    ExpectSamples(MeasureKvPush(transfer, {{.connections = 1}}), 1);
  }
  TransferCase transfer = SmallCase();
  transfer.layout.head_dim = 80;
  EXPECT_THAT(std::string(SetWireType("int4", transfer).message()),
              testing::HasSubstr("--kv-wire-dtype"));
}

TEST(MeasureSocket, MovesTheCacheWithEachSizeOfCalls) {
  ExpectSamples(MeasureSocket(SmallCase(), {1 << 20, 5000}), 2);
}

TEST(MeasureProtobufBytes, MovesTheCacheInMessagesOfEachSize) {
  ExpectSamples(MeasureProtobufBytes(SmallCase(), {1 << 20, 100'000}), 2);
}

TEST(RunForkedPair, GivesTheErrorOfEitherProcess) {
  const auto serve = [](const ReadyFunction& ready) {
    ready("here");
    absl::SleepFor(absl::Hours(1));
    return absl::OkStatus();
  };
  const auto send = [](const std::string& address, pid_t) {
    return absl::StatusOr<std::vector<TransferSample>>(absl::InternalError("not " + address));
  };
  const auto fail = [](const ReadyFunction&) { return absl::InternalError("no port"); };
  EXPECT_EQ(RunForkedPair(serve, send, absl::Seconds(20)).status().message(), "not here");
  EXPECT_EQ(RunForkedPair(fail, send, absl::Seconds(20)).status().message(), "no port");
}

TEST(RunForkedPair, EndsWhenAProcessDoes) {
  const auto serve = [](const ReadyFunction& ready) {
    ready("here");
    absl::SleepFor(absl::Hours(1));
    return absl::OkStatus();
  };
  const auto send = [](const std::string&, pid_t) -> absl::StatusOr<std::vector<TransferSample>> {
    _exit(1);
  };
  EXPECT_TRUE(absl::IsInternal(RunForkedPair(serve, send, absl::Seconds(20)).status()));
}

}  // namespace
}  // namespace baton
