// When the chunks of a prompt were computed and the messages of its push were under way, for people
// to look at.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/time/time.h"

#include "baton/internal/v1/kv_transfer.pb.h"
#include "baton/internal/v1/prefill.pb.h"

namespace baton {

// Most reported spans of each kind, as prefill.proto promises.
inline constexpr size_t kMaxPrefillSpans = 256;

// The chunks of one prompt. Beyond kMaxPrefillSpans neighbours are merged. Not thread-safe.
class ChunkSpans {
 public:
  // REQUIRES: both never fall. `end`: since the first chunk began.
  void Add(uint32_t end_token, absl::Duration end) {
    if (ends_.size() == kMaxPrefillSpans) {
      for (size_t i = 0; i < ends_.size() / 2; ++i) ends_[i] = ends_[2 * i + 1];
      ends_.resize(ends_.size() / 2);
    }
    ends_.push_back({end_token, end});
  }
  void Tell(internal::v1::PrefillFinished& finished) const;

 private:
  struct End {
    uint32_t token = 0;
    absl::Duration at;
  };
  std::vector<End> ends_;
};

// The messages of one push. A span merges as many messages as needed to stay within
// kMaxPrefillSpans. Not thread-safe.
class SentSpans {
 public:
  struct Span {
    uint32_t first_layer = 0;
    uint32_t end_layer = 0;
    uint32_t first_token = 0;
    uint32_t end_token = 0;
    uint64_t bytes = 0;
    absl::Time begin{};  // sent first
    absl::Time end{};    // acknowledged; while it is not, `begin`
  };

  // REQUIRES: the header's sequence number is 1, then one more each time.
  void Sent(const internal::v1::KvDataHeader& header, size_t payload_bytes, absl::Time now) {
    const Span span = {.first_layer = header.first_layer(),
                       .end_layer = header.first_layer() + header.layer_count(),
                       .first_token = header.first_token(),
                       .end_token = header.first_token() + header.token_count(),
                       .bytes = payload_bytes,
                       .begin = now,
                       .end = now};
    if (IndexOf(header.sequence_number()) == kMaxPrefillSpans) Halve();
    const size_t index = IndexOf(header.sequence_number());
    if (index == spans_.size()) {
      spans_.push_back(span);
    } else {
      Join(span, spans_[index]);
    }
  }
  // REQUIRES: it was sent.
  void Acknowledged(uint64_t sequence_number, absl::Time now) {
    Span& span = spans_[IndexOf(sequence_number)];
    span.end = std::max(span.end, now);
  }
  const std::vector<Span>& spans() const { return spans_; }

 private:
  size_t IndexOf(uint64_t sequence_number) const {
    return static_cast<size_t>(sequence_number - 1) / messages_per_span_;
  }
  static void Join(const Span& from, Span& into) {
    into.first_layer = std::min(into.first_layer, from.first_layer);
    into.end_layer = std::max(into.end_layer, from.end_layer);
    into.first_token = std::min(into.first_token, from.first_token);
    into.end_token = std::max(into.end_token, from.end_token);
    into.bytes += from.bytes;
    into.end = std::max(into.end, from.end);
  }
  void Halve() {
    for (size_t i = 0; i < spans_.size() / 2; ++i) {
      spans_[i] = spans_[2 * i];
      Join(spans_[2 * i + 1], spans_[i]);
    }
    spans_.resize(spans_.size() / 2);
    messages_per_span_ *= 2;
  }

  size_t messages_per_span_ = 1;
  std::vector<Span> spans_;
};

// `transfer_began`: the time from which the push's duration counts.
void TellSpans(const std::vector<SentSpans::Span>& spans, absl::Time transfer_began,
               internal::v1::PrefillFinished& finished);

}  // namespace baton
