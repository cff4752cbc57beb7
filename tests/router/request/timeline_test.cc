#include "router/request/timeline.h"

#include <gtest/gtest.h>

#include "common/rpc/duration.h"

namespace baton {
namespace {

google::protobuf::Duration ProtoMs(int64_t ms) { return DurationToProto(absl::Milliseconds(ms)); }
int64_t MsOf(const google::protobuf::Duration& duration) {
  return absl::ToInt64Milliseconds(DurationFromProto(duration));
}

internal::v1::PrefillFinished AccountOfPrefill(int64_t ms, uint64_t bytes, const char* wire_dtype) {
  internal::v1::PrefillFinished finished;
  *finished.mutable_queue() = ProtoMs(ms);
  *finished.mutable_compute() = ProtoMs(2 * ms);
  *finished.mutable_transfer() = ProtoMs(3 * ms);
  *finished.mutable_exposed_transfer() = ProtoMs(4 * ms);
  finished.set_bytes_sent(bytes);
  finished.set_bytes_saved(2 * bytes);
  finished.set_bytes_resent(3 * bytes);
  finished.set_messages(static_cast<uint32_t>(bytes / 100));
  finished.set_wire_dtype(wire_dtype);
  return finished;
}

internal::v1::DecodeFinished AccountOfDecode(int64_t queue_ms, int64_t decode_ms, bool exact) {
  internal::v1::DecodeFinished finished;
  *finished.mutable_queue() = ProtoMs(queue_ms);
  *finished.mutable_decode() = ProtoMs(decode_ms);
  *finished.mutable_prefill_queue() = ProtoMs(5);
  *finished.mutable_prefill() = ProtoMs(6);
  finished.set_exact(exact);
  return finished;
}

TEST(Timeline, APrefillWorkersAccountSumsOverAttempts) {
  v1::RequestTimings timings;
  AddPrefill(AccountOfPrefill(10, 100, "f16"), &timings);
  AddPrefill(AccountOfPrefill(1, 1000, "int8"), &timings);
  EXPECT_EQ(MsOf(timings.prefill_queue()), 11);
  EXPECT_EQ(MsOf(timings.prefill()), 22);
  EXPECT_EQ(MsOf(timings.kv_transfer()), 33);
  EXPECT_EQ(MsOf(timings.exposed_kv_transfer()), 44);
  EXPECT_EQ(timings.kv_transfer_bytes(), 1100u);
  EXPECT_EQ(timings.kv_transfer_bytes_saved(), 2200u);
  EXPECT_EQ(timings.kv_transfer_bytes_resent(), 3300u);
  EXPECT_EQ(timings.kv_transfer_messages(), 11u);
  EXPECT_EQ(timings.kv_wire_dtype(), "int8");
}

TEST(Timeline, OfTheChoicesTheLongestCounts) {
  v1::RequestTimings timings;
  AddDecode(AccountOfDecode(10, 100, true), /*local_prefill=*/false, &timings);
  AddDecode(AccountOfDecode(20, 50, false), /*local_prefill=*/false, &timings);
  EXPECT_EQ(MsOf(timings.decode_queue()), 20);
  EXPECT_EQ(MsOf(timings.decode()), 100);
  EXPECT_FALSE(timings.exact());
}

TEST(Timeline, ADecodeWorkerTellsOfThePromptsThatItComputedAlone) {
  v1::RequestTimings timings;
  AddPrefill(AccountOfPrefill(1, 100, "f16"), &timings);
  AddDecode(AccountOfDecode(10, 100, true), /*local_prefill=*/false, &timings);
  EXPECT_EQ(MsOf(timings.prefill()), 2);
  AddDecode(AccountOfDecode(10, 100, true), /*local_prefill=*/true, &timings);
  EXPECT_EQ(MsOf(timings.prefill_queue()), 5);
  EXPECT_EQ(MsOf(timings.prefill()), 6);
}

}  // namespace
}  // namespace baton
