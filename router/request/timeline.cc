#include "router/request/timeline.h"

#include <algorithm>

#include "common/rpc/duration.h"

namespace baton {
namespace {

void Add(const google::protobuf::Duration& value, google::protobuf::Duration* sum) {
  *sum = DurationToProto(DurationFromProto(*sum) + DurationFromProto(value));
}
void TakeLonger(const google::protobuf::Duration& value, google::protobuf::Duration* longest) {
  *longest = DurationToProto(std::max(DurationFromProto(*longest), DurationFromProto(value)));
}

}  // namespace

void AddPrefill(const internal::v1::PrefillFinished& finished, v1::RequestTimings* timings) {
  Add(finished.queue(), timings->mutable_prefill_queue());
  Add(finished.compute(), timings->mutable_prefill());
  Add(finished.transfer(), timings->mutable_kv_transfer());
  Add(finished.exposed_transfer(), timings->mutable_exposed_kv_transfer());
  timings->set_kv_transfer_bytes(timings->kv_transfer_bytes() + finished.bytes_sent());
  timings->set_kv_transfer_bytes_saved(timings->kv_transfer_bytes_saved() + finished.bytes_saved());
  timings->set_kv_transfer_bytes_resent(timings->kv_transfer_bytes_resent() +
                                        finished.bytes_resent());
  timings->set_kv_transfer_messages(timings->kv_transfer_messages() + finished.messages());
  timings->set_kv_wire_dtype(finished.wire_dtype());
}

void AddDecode(const internal::v1::DecodeFinished& finished, bool local_prefill,
               v1::RequestTimings* timings) {
  TakeLonger(finished.queue(), timings->mutable_decode_queue());
  TakeLonger(finished.decode(), timings->mutable_decode());
  timings->set_exact(finished.exact());
  if (!local_prefill) return;
  TakeLonger(finished.prefill_queue(), timings->mutable_prefill_queue());
  TakeLonger(finished.prefill(), timings->mutable_prefill());
}

}  // namespace baton
