#include "router/page/waterfall.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "common/rpc/duration.h"

namespace baton {
namespace {

using Lane = WaterfallSpan::Lane;
using Spans = std::vector<WaterfallSpan>;

// Lays the spans of one try.
class TryLayer {
 public:
  TryLayer(const TryRecord& attempt, absl::Duration end, Spans& spans)
      : attempt_(attempt), end_(attempt.ended.value_or(end)), spans_(spans) {}

  void Lay() {
    if (attempt_.queued > absl::ZeroDuration()) {
      Add(Lane::kQueue, attempt_.begun, attempt_.begun + attempt_.queued);
    }
    if (attempt_.local_prefill) {
      LayLocalPrefill();
    } else if (attempt_.prefill.has_value()) {
      LayPrefill(*attempt_.prefill);
    } else if (attempt_.started.has_value()) {
      Add(Lane::kPrefillQueue, QueueBegin(), std::max(QueueBegin(), *attempt_.started));
      LaySeenChunks(*attempt_.started, attempt_.first_token.value_or(end_));
    } else if (attempt_.accepted.has_value()) {
      Add(Lane::kPrefillQueue, QueueBegin(), std::max(QueueBegin(), end_));
    }
    LayDecode();
  }

 private:
  WaterfallSpan& Add(Lane lane, absl::Duration start, absl::Duration end) {
    return spans_.emplace_back(
        WaterfallSpan{.lane = lane, .attempt = attempt_.number, .start = start, .end = end});
  }
  void AddChunk(absl::Duration start, absl::Duration end, uint32_t tokens, size_t index,
                size_t count) {
    WaterfallSpan& span = Add(Lane::kPrefill, start, end);
    span.tokens = tokens;
    if (count > 1) span.label = absl::StrCat("chunk ", index + 1, " of ", count);
  }
  // When the worker that prefills had the prompt.
  absl::Duration QueueBegin() const {
    return attempt_.accepted.value_or(attempt_.begun + attempt_.queued);
  }
  uint32_t CachedTokens() const {
    return attempt_.chunks.empty() ? 0 : attempt_.chunks.front().tokens;
  }

  // As the prefill worker reports.
  void LayPrefill(const internal::v1::PrefillFinished& told) {
    const absl::Duration compute = DurationFromProto(told.compute());
    const absl::Duration begin = QueueBegin() + DurationFromProto(told.queue());
    Add(Lane::kPrefillQueue, QueueBegin(), begin);
    const absl::Duration end = begin + compute;
    const auto count = static_cast<size_t>(told.chunks_size());
    if (count == 0) Add(Lane::kPrefill, begin, end);
    absl::Duration from = begin;
    uint32_t tokens = CachedTokens();
    for (size_t i = 0; i < count; ++i) {
      const internal::v1::ChunkSpan& chunk = told.chunks(static_cast<int>(i));
      const absl::Duration to =
          i + 1 == count ? end : std::clamp(begin + absl::Microseconds(chunk.end_us()), from, end);
      AddChunk(from, to, chunk.end_token() - std::min(tokens, chunk.end_token()), i, count);
      from = to;
      tokens = chunk.end_token();
    }
    if (told.messages() > 0) LayTransfer(told, end);
  }

  // What lies before its first message and behind its last acknowledgement is a span too.
  void LayTransfer(const internal::v1::PrefillFinished& told, absl::Duration computed) {
    const absl::Duration end = computed + DurationFromProto(told.exposed_transfer());
    const absl::Duration begin = end - DurationFromProto(told.transfer());
    absl::Duration first = end, last = begin;
    const size_t before = spans_.size();
    for (const internal::v1::TransferSpan& sent : told.transfers()) {
      const absl::Duration from =
          std::clamp(begin + absl::Microseconds(sent.begin_us()), begin, end);
      const absl::Duration to = std::clamp(begin + absl::Microseconds(sent.end_us()), from, end);
      WaterfallSpan& span = Add(Lane::kTransfer, from, to);
      span.tokens = sent.token_count();
      span.layers = {sent.first_layer(), sent.first_layer() + std::max(sent.layer_count(), 1u) - 1};
      span.bytes = sent.bytes();
      first = std::min(first, from);
      last = std::max(last, to);
    }
    if (spans_.size() == before) {
      Add(Lane::kTransfer, begin, end);
      return;
    }
    if (first > begin) Add(Lane::kTransfer, begin, first).label = "until the first message";
    if (last < end) Add(Lane::kTransfer, last, end).label = "commit";
  }

  // As the decode worker reports, cut into chunks at the times of its reports.
  void LayLocalPrefill() {
    if (!attempt_.accepted.has_value()) return;
    const absl::Duration begin =
        *attempt_.accepted +
        (attempt_.decode.has_value() ? attempt_.decode->prefill_queue : absl::ZeroDuration());
    if (attempt_.decode.has_value()) Add(Lane::kPrefillQueue, *attempt_.accepted, begin);
    prefill_end_ = attempt_.decode.has_value() ? begin + attempt_.decode->prefill : end_;
    LaySeenChunks(begin, prefill_end_);
  }

  // The first reported chunk is the cached part.
  void LaySeenChunks(absl::Duration begin, absl::Duration end) {
    const size_t count = std::max<size_t>(attempt_.chunks.size(), 1) - 1;
    if (count == 0) Add(Lane::kPrefill, begin, end);
    absl::Duration from = begin;
    for (size_t i = 0; i < count; ++i) {
      const ChunkSeen& chunk = attempt_.chunks[i + 1];
      const absl::Duration to = i + 1 == count ? end : std::clamp(chunk.at, from, end);
      AddChunk(from, to, chunk.tokens - attempt_.chunks[i].tokens, i, count);
      from = to;
    }
  }

  void LayDecode() {
    if (!attempt_.committed.has_value() && !attempt_.decode.has_value()) return;
    const absl::Duration begin =
        attempt_.local_prefill ? prefill_end_ : attempt_.committed.value_or(end_);
    if (!attempt_.decode.has_value()) {
      Add(Lane::kDecode, begin, std::max(begin, end_));
      return;
    }
    const absl::Duration first_step = begin + attempt_.decode->queue;
    Add(Lane::kDecodeQueue, begin, first_step);
    Add(Lane::kDecode, first_step, first_step + attempt_.decode->decode);
  }

  const TryRecord& attempt_;
  const absl::Duration end_;
  absl::Duration prefill_end_;
  Spans& spans_;
};

}  // namespace

const char* LaneName(WaterfallSpan::Lane lane) {
  switch (lane) {
    case Lane::kQueue:
      return "queue";
    case Lane::kPrefillQueue:
      return "prefill_queue";
    case Lane::kPrefill:
      return "prefill";
    case Lane::kTransfer:
      return "transfer";
    case Lane::kDecodeQueue:
      return "decode_queue";
    case Lane::kDecode:
      return "decode";
  }
  return "";
}

std::vector<WaterfallSpan> LayWaterfall(const RequestRecord& record) {
  std::vector<WaterfallSpan> spans;
  for (const TryRecord& attempt : record.tries) TryLayer(attempt, record.age, spans).Lay();
  return spans;
}

}  // namespace baton
