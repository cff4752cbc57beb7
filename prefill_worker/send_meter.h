// Measures one push at the prefill worker. Its mirror at the decode worker is
// decode_worker/receive_meter.h.
#pragma once

#include <algorithm>
#include <cstddef>

#include "absl/time/time.h"

#include "prefill_worker/prefill_spans.h"
#include "prefill_worker/send_events.h"

namespace baton {

// Makes the report of a push. Not thread-safe.
class SendMeter {
 public:
  // The receiver holds these payload bytes already.
  void Saved(size_t bytes) { report_.bytes_saved = bytes; }
  // The first sending of a message; REQUIRES as SentSpans::Sent.
  void Sent(const internal::v1::KvDataHeader& header, size_t payload_bytes, absl::Time now) {
    if (report_.messages == 0) first_sent_ = now;
    spans_.Sent(header, payload_bytes, now);
    report_.bytes_sent += payload_bytes;
    ++report_.messages;
  }
  void SentAgain(size_t payload_bytes) { report_.bytes_resent += payload_bytes; }
  void Acknowledged(uint64_t sequence_number, absl::Time now) {
    spans_.Acknowledged(sequence_number, now);
  }
  void StaleMessage() { ++report_.stale_messages; }
  // The last chunk was computed at `at`.
  void AllComputed(absl::Time at) { all_computed_ = at; }
  bool all_computed() const { return all_computed_ != absl::InfinitePast(); }

  // The report of a push that ends at `now`.
  SendReport Report(bool committed, absl::Time now) const {
    SendReport report = report_;
    report.committed = committed;
    if (all_computed()) report.exposed_transfer = now - all_computed_;
    if (report.messages > 0) {
      report.transfer_began = all_computed() ? std::min(first_sent_, all_computed_) : first_sent_;
      report.transfer = now - report.transfer_began;
      report.spans = spans_.spans();
    }
    return report;
  }

 private:
  SendReport report_;
  SentSpans spans_;
  absl::Time first_sent_ = absl::InfinitePast();
  absl::Time all_computed_ = absl::InfinitePast();
};

}  // namespace baton
