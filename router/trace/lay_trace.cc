#include "router/trace/lay_trace.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "common/rpc/duration.h"
#include "router/page/waterfall.h"

namespace baton {
namespace {

using Lane = WaterfallSpan::Lane;

double Seconds(const google::protobuf::Duration& duration) {
  return absl::ToDoubleSeconds(DurationFromProto(duration));
}

const char* StageOf(Lane lane) {
  switch (lane) {
    case Lane::kQueue:
      return "queue";
    case Lane::kPrefillQueue:
      return "prefill.queue";
    case Lane::kPrefill:
      return "prefill.compute";
    case Lane::kTransfer:
      return "kv.transfer";
    case Lane::kDecodeQueue:
      return "decode.queue";
    case Lane::kDecode:
      return "decode";
  }
  return "";
}

// Part of the time of a request, since it was received.
struct Extent {
  absl::Duration begin, end;
};

class Layer {
 public:
  Layer(const RequestRecord& record, RequestTrace& trace)
      : record_(record),
        received_ns_(static_cast<int64_t>(record.received * 1e9)),
        waterfall_(LayWaterfall(record)),
        trace_(trace) {}

  // `within`: the place of the span that contains it; the extent is cut to that.
  int Add(std::string name, int within, Extent extent) {
    TraceSpan span{.name = std::move(name),
                   .parent = within,
                   .begin_ns = received_ns_ + absl::ToInt64Nanoseconds(extent.begin),
                   .end_ns = received_ns_ + absl::ToInt64Nanoseconds(extent.end)};
    if (within >= 0) {
      const TraceSpan& parent = trace_.spans[static_cast<size_t>(within)];
      span.begin_ns = std::clamp(span.begin_ns, parent.begin_ns, parent.end_ns);
      span.end_ns = std::clamp(span.end_ns, span.begin_ns, parent.end_ns);
    }
    trace_.spans.push_back(std::move(span));
    return static_cast<int>(trace_.spans.size()) - 1;
  }
  TraceSpan& At(int place) { return trace_.spans[static_cast<size_t>(place)]; }

  void LayAttempt(const TryRecord& attempt) {
    const int place = Add(
        "attempt", 0, {attempt.begun, std::min(attempt.ended.value_or(record_.age), record_.age)});
    TraceSpan& span = At(place);
    span.error = attempt.failure;
    span.attributes.emplace_back("baton.attempt", int64_t{attempt.number});
    span.attributes.emplace_back("baton.local_prefill", attempt.local_prefill);
    if (!attempt.prefill_worker.empty()) {
      span.attributes.emplace_back("baton.prefill_worker", attempt.prefill_worker);
    }
    if (!attempt.decode_worker.empty()) {
      span.attributes.emplace_back("baton.decode_worker", attempt.decode_worker);
    }
    LayStage(attempt, Lane::kQueue, place);
    LayWaits(attempt, place);
    for (const Lane lane : {Lane::kPrefill, Lane::kTransfer, Lane::kDecodeQueue, Lane::kDecode}) {
      LayStage(attempt, lane, place);
    }
  }

 private:
  // The spans of a lane of one attempt, in order.
  std::vector<const WaterfallSpan*> PiecesOf(uint32_t attempt, Lane lane) const {
    std::vector<const WaterfallSpan*> pieces;
    for (const WaterfallSpan& span : waterfall_) {
      if (span.attempt == attempt && span.lane == lane) pieces.push_back(&span);
    }
    return pieces;
  }

  static Extent Around(const std::vector<const WaterfallSpan*>& pieces) {
    Extent extent{pieces.front()->start, pieces.front()->end};
    for (const WaterfallSpan* piece : pieces) {
      extent.begin = std::min(extent.begin, piece->start);
      extent.end = std::max(extent.end, piece->end);
    }
    return extent;
  }

  void LayStage(const TryRecord& attempt, Lane lane, int within) {
    const auto pieces = PiecesOf(attempt.number, lane);
    if (pieces.empty()) return;
    const int stage = Add(StageOf(lane), within, Around(pieces));
    const std::string& worker = lane == Lane::kPrefill && !attempt.local_prefill
                                    ? attempt.prefill_worker
                                    : attempt.decode_worker;
    if (lane != Lane::kQueue && lane != Lane::kTransfer && !worker.empty()) {
      At(stage).attributes.emplace_back("baton.worker", worker);
    }
    if (lane == Lane::kTransfer) DescribeTransfer(attempt, At(stage));
    if (pieces.size() > 1 || lane == Lane::kTransfer) {
      for (const WaterfallSpan* piece : pieces) LayPiece(*piece, stage);
    }
  }

  static void DescribeTransfer(const TryRecord& attempt, TraceSpan& span) {
    if (!attempt.prefill.has_value()) return;
    const internal::v1::PrefillFinished& told = *attempt.prefill;
    span.attributes.emplace_back("baton.from", attempt.prefill_worker);
    span.attributes.emplace_back("baton.to", attempt.decode_worker);
    span.attributes.emplace_back("baton.bytes", static_cast<int64_t>(told.bytes_sent()));
    span.attributes.emplace_back("baton.messages", static_cast<int64_t>(told.messages()));
    span.attributes.emplace_back("baton.wire_dtype", told.wire_dtype());
    span.attributes.emplace_back("baton.exposed", Seconds(told.exposed_transfer()));
  }

  void LayPiece(const WaterfallSpan& piece, int stage) {
    const char* kind = piece.lane == Lane::kTransfer ? "message" : "chunk";
    TraceSpan& span =
        At(Add(piece.label.empty() ? kind : piece.label, stage, {piece.start, piece.end}));
    if (piece.tokens.has_value()) span.attributes.emplace_back("tokens", int64_t{*piece.tokens});
    if (piece.bytes.has_value()) {
      span.attributes.emplace_back("bytes", static_cast<int64_t>(*piece.bytes));
    }
    if (piece.layers.has_value()) {
      span.attributes.emplace_back("first_layer", int64_t{piece.layers->first});
      span.attributes.emplace_back("last_layer", int64_t{piece.layers->second});
    }
  }

  // Between the router's queue and the prefill: until the decode worker has reserved its blocks, and
  // in the queue of the worker that prefills.
  void LayWaits(const TryRecord& attempt, int within) {
    const absl::Duration chosen = attempt.begun + attempt.queued;
    const absl::Duration accepted = attempt.accepted.value_or(chosen);
    if (accepted > chosen) Add("placement", within, {chosen, accepted});
    const auto prefill = PiecesOf(attempt.number, Lane::kPrefill);
    if (prefill.empty()) return;
    const absl::Duration computes = Around(prefill).begin;
    if (computes > accepted) Add("prefill.queue", within, {accepted, computes});
  }

  const RequestRecord& record_;
  const int64_t received_ns_;
  const std::vector<WaterfallSpan> waterfall_;
  RequestTrace& trace_;
};

void DescribeAsked(const TracedRequest& request, TraceAttributes& attributes) {
  attributes.emplace_back("gen_ai.operation.name", request.chat ? "chat" : "text_completion");
  attributes.emplace_back("gen_ai.provider.name", "baton");
  attributes.emplace_back("gen_ai.request.model", request.model);
  attributes.emplace_back("gen_ai.response.model", request.model);
  attributes.emplace_back("gen_ai.request.stream", request.stream);
  attributes.emplace_back("gen_ai.request.max_tokens", int64_t{request.max_tokens});
  attributes.emplace_back("gen_ai.request.temperature", request.temperature);
  attributes.emplace_back("gen_ai.request.top_p", request.top_p);
  if (request.top_k > 0) attributes.emplace_back("gen_ai.request.top_k", int64_t{request.top_k});
  if (request.choices > 1) {
    attributes.emplace_back("gen_ai.request.choice.count", int64_t{request.choices});
  }
}

void DescribeAnswer(const RequestRecord& record, TraceAttributes& attributes) {
  const v1::RequestTimings& timings = record.timings;
  attributes.emplace_back("gen_ai.response.id", record.id);
  if (!record.finish.empty()) {
    attributes.emplace_back("gen_ai.response.finish_reasons",
                            std::vector<std::string>{record.finish});
  }
  attributes.emplace_back("gen_ai.usage.input_tokens", int64_t{record.prompt_tokens});
  attributes.emplace_back("gen_ai.usage.output_tokens", static_cast<int64_t>(record.output_tokens));
  if (record.cached_tokens.has_value()) {
    attributes.emplace_back("gen_ai.usage.cache_read.input_tokens", int64_t{*record.cached_tokens});
  }
  if (!record.error.empty()) {
    attributes.emplace_back("error.type", record.error.substr(0, record.error.find(' ')));
  }
  const auto add_time = [&](const char* name, const google::protobuf::Duration& duration) {
    attributes.emplace_back(name, Seconds(duration));
  };
  add_time("gen_ai.response.time_to_first_chunk", timings.time_to_first_token());
  add_time("gen_ai.latency.time_to_first_token", timings.time_to_first_token());
  add_time("gen_ai.latency.time_in_queue", timings.queue());
  add_time("gen_ai.latency.time_in_model_prefill", timings.prefill());
  add_time("gen_ai.latency.time_in_model_decode", timings.decode());
  attributes.emplace_back("gen_ai.latency.e2e", absl::ToDoubleSeconds(record.age));
  add_time("baton.prefill_queue", timings.prefill_queue());
  add_time("baton.decode_queue", timings.decode_queue());
  add_time("baton.kv_transfer", timings.kv_transfer());
  add_time("baton.exposed_kv_transfer", timings.exposed_kv_transfer());
  const auto add_count = [&](const char* name, uint64_t count) {
    attributes.emplace_back(name, static_cast<int64_t>(count));
  };
  add_count("baton.kv_transfer_bytes", timings.kv_transfer_bytes());
  add_count("baton.kv_transfer_bytes_saved", timings.kv_transfer_bytes_saved());
  add_count("baton.kv_transfer_messages", timings.kv_transfer_messages());
  add_count("baton.attempts", record.tries.size());
}

}  // namespace

RequestTrace LayTrace(const RequestRecord& record, const TracedRequest& request) {
  RequestTrace trace{.context = request.context};
  Layer layer(record, trace);
  layer.Add(absl::StrCat(request.chat ? "chat " : "text_completion ", request.model), -1,
            {absl::ZeroDuration(), record.age});
  TraceSpan& root = trace.spans.front();
  root.error = record.error;
  DescribeAsked(request, root.attributes);
  DescribeAnswer(record, root.attributes);
  for (const TryRecord& attempt : record.tries) layer.LayAttempt(attempt);
  return trace;
}

}  // namespace baton
