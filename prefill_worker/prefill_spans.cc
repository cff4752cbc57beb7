#include "prefill_worker/prefill_spans.h"

#include <limits>

namespace baton {
namespace {

// A longer time than about an hour is reported as the largest value.
uint32_t Microseconds(absl::Duration duration) {
  constexpr int64_t kMost = std::numeric_limits<uint32_t>::max();
  return static_cast<uint32_t>(std::clamp<int64_t>(absl::ToInt64Microseconds(duration), 0, kMost));
}

}  // namespace

void ChunkSpans::Tell(internal::v1::PrefillFinished& finished) const {
  for (const End& end : ends_) {
    internal::v1::ChunkSpan& chunk = *finished.add_chunks();
    chunk.set_end_token(end.token);
    chunk.set_end_us(Microseconds(end.at));
  }
}

void TellSpans(const std::vector<SentSpans::Span>& spans, absl::Time transfer_began,
               internal::v1::PrefillFinished& finished) {
  for (const SentSpans::Span& span : spans) {
    internal::v1::TransferSpan& told = *finished.add_transfers();
    told.set_first_layer(span.first_layer);
    told.set_layer_count(span.end_layer - span.first_layer);
    told.set_first_token(span.first_token);
    told.set_token_count(span.end_token - span.first_token);
    told.set_bytes(span.bytes);
    told.set_begin_us(Microseconds(span.begin - transfer_began));
    told.set_end_us(Microseconds(span.end - transfer_began));
  }
}

}  // namespace baton
