#include "router/page/page_json.h"

#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/str_format.h"
#include <nlohmann/json.hpp>

#include "common/base/prefix_hash.h"
#include "common/base/version.h"
#include "common/rpc/duration.h"
#include "router/openai/answer_json.h"
#include "router/page/waterfall.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

double Ms(absl::Duration duration) { return absl::ToDoubleMilliseconds(duration); }

double Rounded(double value) { return std::round(1000 * value) / 1000; }

// Names and ids come from outside and may be no UTF-8.
std::string Text(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void AddUnlessEmpty(const char* key, const std::string& value, Json& json) {
  if (!value.empty()) json[key] = value;
}

Json BlocksJson(const BlockCounts& blocks) {
  return {{"total", blocks.total},
          {"used", blocks.used},
          {"cached", blocks.cached},
          {"free", blocks.free}};
}

Json WorkerJson(const WorkerReport& worker) {
  Json json = {{"name", worker.name},
               {"role", worker.role},
               {"address", worker.address},
               {"state", worker.state}};
  AddUnlessEmpty("problem", worker.problem, json);
  if (!worker.known) return json;
  json["running"] = worker.running;
  json["waiting"] = worker.waiting;
  json["in_flight"] = worker.in_flight;
  json["blocks"] = BlocksJson(worker.blocks);
  json["tokens_per_second"] =
      worker.role == "decode" ? worker.rates.output_tokens : worker.rates.prompt_tokens;
  json["handoffs_per_second"] = worker.rates.hand_offs;
  json["handoff_bytes_per_second"] = worker.rates.hand_off_bytes;
  if (worker.role == "prefill" && worker.rates.exposed_transfer.has_value()) {
    json["exposed_transfer_ms"] = Ms(*worker.rates.exposed_transfer);
  }
  if (worker.silent.has_value()) json["silent_ms"] = Ms(*worker.silent);
  AddUnlessEmpty("version", worker.version, json);
  AddUnlessEmpty("weights", worker.weights, json);
  AddUnlessEmpty("identity", worker.identity, json);
  AddUnlessEmpty("numerics", worker.numerics, json);
  AddUnlessEmpty("kv_dtype", worker.kv_dtype, json);
  json["block_size"] = worker.block_size;
  return json;
}

Json LinkJson(const LinkReport& link) {
  return {{"prefill_worker", link.prefill},
          {"decode_worker", link.decode},
          {"prefill_address", link.prefill_address},
          {"decode_address", link.decode_address},
          {"reason", link.reason},
          {"problem", link.problem},
          {"failures", link.failures},
          {"since_last_ms", Ms(link.since_last)}};
}

Json RouterJson(const RouterReport& router) {
  Json refused = Json::object();
  for (const auto& [reason, count] : router.refused) {
    refused[absl::AsciiStrToLower(reason)] = count;
  }
  return {{"name", router.name},
          {"state", router.draining ? "draining" : "serving"},
          {"uptime_s", absl::ToDoubleSeconds(router.uptime)},
          {"running", router.running},
          {"waiting", router.waiting},
          {"streams_behind", router.streams_behind},
          {"refused", std::move(refused)}};
}

Json RoleAdviceJson(const RoleAdvice& advice) {
  Json json = {{"ready", advice.ready}};
  if (advice.needed.has_value()) json["needed"] = *advice.needed;
  if (advice.advised > 0) json["advised"] = advice.advised;
  if (advice.balanced > 0) json["balanced"] = advice.balanced;
  AddUnlessEmpty("why", advice.why, json);
  return json;
}

Json AdviceJson(const Advice& advice) {
  Json json = {{"prefill", RoleAdviceJson(advice.prefill)},
               {"decode", RoleAdviceJson(advice.decode)}};
  if (advice.colocated.has_value()) {
    json["colocated"] = {{"workers", advice.colocated->workers},
                         {"prompt_share", advice.colocated->prompt_share}};
  }
  return json;
}

Json EventJson(const FleetEvent& event) {
  Json json = {{"number", event.number}, {"at", event.at}, {"kind", FleetEventName(event.kind)}};
  AddUnlessEmpty("worker", event.worker, json);
  AddUnlessEmpty("request", event.request, json);
  json["text"] = event.text;
  return json;
}

Json SummaryJson(const RequestRecord& record) {
  Json json = {
      {"id", record.id}, {"received", record.received}, {"state", RequestStageName(record.stage)}};
  if (!record.ended()) json["stage_ms"] = Ms(record.age - record.stage_since);
  json["prompt_tokens"] = record.prompt_tokens;
  if (record.cached_tokens.has_value()) json["cached_tokens"] = *record.cached_tokens;
  json["output_tokens"] = record.output_tokens;
  if (record.timings.has_time_to_first_token()) {
    json["ttft_ms"] = Ms(DurationFromProto(record.timings.time_to_first_token()));
  }
  if (record.ended()) json["total_ms"] = Ms(record.age);
  json["attempts"] = record.timings.attempts();
  AddUnlessEmpty("prefill_worker", record.prefill_worker, json);
  AddUnlessEmpty("decode_worker", record.decode_worker, json);
  AddUnlessEmpty("finish", record.finish, json);
  AddUnlessEmpty("error", record.error, json);
  return json;
}

Json TransferJson(const v1::RequestTimings& timings) {
  return {{"bytes", timings.kv_transfer_bytes()},
          {"bytes_saved", timings.kv_transfer_bytes_saved()},
          {"bytes_resent", timings.kv_transfer_bytes_resent()},
          {"messages", timings.kv_transfer_messages()},
          {"wire_dtype", timings.kv_wire_dtype()}};
}

Json TryJson(const TryRecord& attempt, absl::Duration age) {
  Json json = {{"number", attempt.number},
               {"start_ms", Ms(attempt.begun)},
               {"end_ms", Ms(attempt.ended.value_or(age))}};
  AddUnlessEmpty("prefill_worker", attempt.prefill_worker, json);
  AddUnlessEmpty("decode_worker", attempt.decode_worker, json);
  json["local_prefill"] = attempt.local_prefill;
  AddUnlessEmpty("failure", attempt.failure, json);
  return json;
}

Json SpanJson(const WaterfallSpan& span) {
  Json json = {{"lane", LaneName(span.lane)},
               {"try", span.attempt},
               {"start_ms", Ms(span.start)},
               {"end_ms", Ms(span.end)}};
  if (span.tokens.has_value()) json["tokens"] = *span.tokens;
  if (span.layers.has_value()) json["layers"] = {span.layers->first, span.layers->second};
  if (span.bytes.has_value()) json["bytes"] = *span.bytes;
  AddUnlessEmpty("label", span.label, json);
  return json;
}

std::string PageName(uint64_t page) { return absl::StrFormat("%016x", page); }

}  // namespace

std::string FleetJson(double now, const RouterReport& router, const FleetReport& fleet,
                      const std::vector<FleetEvent>& events) {
  Json json = {{"now", now},
               {"version", Version()},
               {"model", router.model},
               {"tokens_per_second", fleet.rates.output_tokens},
               {"prompt_tokens_per_second", fleet.rates.prompt_tokens},
               {"handoffs_per_second", fleet.rates.hand_offs},
               {"handoff_bytes_per_second", fleet.rates.hand_off_bytes},
               {"advice", AdviceJson(fleet.advice)},
               {"routers", Json::array({RouterJson(router)})},
               {"workers", Json::array()},
               {"events", Json::array()}};
  for (const WorkerReport& worker : fleet.workers) json["workers"].push_back(WorkerJson(worker));
  for (const LinkReport& link : fleet.links) json["links"].push_back(LinkJson(link));
  for (const FleetEvent& event : events) json["events"].push_back(EventJson(event));
  return Text(json);
}

// A list for each quantity rather than an object for each point: a third of the bytes.
std::string HistoryJson(double now, absl::Time steady_now, const std::vector<FleetPoint>& points) {
  Json at = Json::array(), output = at, prompt = at, hand_offs = at, hand_off_bytes = at,
       running = at, waiting = at, first_token = at;
  for (const FleetPoint& point : points) {
    at.push_back(Rounded(now - absl::ToDoubleSeconds(steady_now - point.at)));
    output.push_back(Rounded(point.rates.output_tokens));
    prompt.push_back(Rounded(point.rates.prompt_tokens));
    hand_offs.push_back(Rounded(point.rates.hand_offs));
    hand_off_bytes.push_back(Rounded(point.rates.hand_off_bytes));
    running.push_back(point.running);
    waiting.push_back(point.waiting);
    first_token.push_back(point.first_token.has_value() ? Json(Rounded(Ms(*point.first_token)))
                                                        : Json());
  }
  const Json json = {{"now", now},
                     {"interval_s", absl::ToDoubleSeconds(FleetHistory::kInterval)},
                     {"length_s", absl::ToDoubleSeconds(FleetHistory::kLength)},
                     {"at", std::move(at)},
                     {"tokens_per_second", std::move(output)},
                     {"prompt_tokens_per_second", std::move(prompt)},
                     {"handoffs_per_second", std::move(hand_offs)},
                     {"handoff_bytes_per_second", std::move(hand_off_bytes)},
                     {"running", std::move(running)},
                     {"waiting", std::move(waiting)},
                     {"ttft_ms", std::move(first_token)}};
  return Text(json);
}

std::string RequestsJson(const std::vector<RequestRecord>& records) {
  Json json = {{"requests", Json::array()}};
  for (const RequestRecord& record : records) json["requests"].push_back(SummaryJson(record));
  return Text(json);
}

std::string RequestJson(const RequestRecord& record) {
  Json json = SummaryJson(record);
  json["timings"] = TimingsJson(record.timings);
  if (record.timings.kv_transfer_messages() > 0) json["transfer"] = TransferJson(record.timings);
  json["tries"] = Json::array();
  for (const TryRecord& attempt : record.tries) {
    json["tries"].push_back(TryJson(attempt, record.age));
  }
  json["spans"] = Json::array();
  for (const WaterfallSpan& span : LayWaterfall(record)) json["spans"].push_back(SpanJson(span));
  return Text(json);
}

std::string KvJson(const FleetReport& fleet) {
  Json json = {{"workers", Json::array()}, {"prefixes", Json::array()}};
  for (const WorkerReport& worker : fleet.workers) {
    if (!worker.known) continue;
    json["workers"].push_back({{"name", worker.name},
                               {"role", worker.role},
                               {"blocks", BlocksJson(worker.blocks)},
                               {"block_size", worker.block_size},
                               {"kv_dtype", worker.kv_dtype},
                               {"bytes_per_token", worker.bytes_per_token},
                               {"bytes_per_token_of", worker.bytes_per_token_of},
                               {"prefix_pages", worker.prefix_pages}});
  }
  for (const PrefixPageReport& page : fleet.prefixes) {
    Json one = {{"page", PageName(page.page)}};
    if (page.parent.has_value()) one["parent"] = PageName(*page.parent);
    one["tokens"] = kPrefixPageTokens;
    one["depth_tokens"] = page.depth_tokens;
    one["reused"] = page.reused;
    one["holders"] = page.holders;
    one["workers"] = page.workers;
    json["prefixes"].push_back(std::move(one));
  }
  return Text(json);
}

}  // namespace baton
