#include "router/trace/trace_json.h"

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "common/base/random.h"
#include "common/base/version.h"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

constexpr int64_t kNsPerUs = 1000;

Json Plain(const TraceValue& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

// An AnyValue.
Json Any(const TraceValue& value) {
  struct Writer {
    Json operator()(bool held) const { return {{"boolValue", held}}; }
    Json operator()(int64_t held) const { return {{"intValue", absl::StrCat(held)}}; }
    Json operator()(double held) const { return {{"doubleValue", held}}; }
    Json operator()(const std::string& held) const { return {{"stringValue", held}}; }
    Json operator()(const std::vector<std::string>& held) const {
      Json values = Json::array();
      for (const std::string& one : held) values.push_back({{"stringValue", one}});
      return {{"arrayValue", {{"values", std::move(values)}}}};
    }
  };
  return std::visit(Writer{}, value);
}

Json KeyValues(const TraceAttributes& attributes) {
  Json list = Json::array();
  for (const auto& [key, value] : attributes) list.push_back({{"key", key}, {"value", Any(value)}});
  return list;
}

int DepthOf(const RequestTrace& trace, const TraceSpan& span) {
  int depth = 0;
  for (int at = span.parent; at >= 0; at = trace.spans[static_cast<size_t>(at)].parent) ++depth;
  return depth;
}

std::string NewSpanId() {
  uint64_t id = 0;
  while (id == 0) id = RandomUint64();
  return absl::StrFormat("%016x", id);
}

void AppendSpans(const RequestTrace& trace, Json& spans) {
  constexpr int kServer = 2, kInternal = 1, kError = 2, kDepthOfStages = 2;
  std::vector<std::string> ids;
  for (const TraceSpan& span : trace.spans) {
    const bool is_root = span.parent < 0;
    ids.push_back(is_root ? trace.context.span_id : NewSpanId());
    if (DepthOf(trace, span) > kDepthOfStages) continue;
    Json json = {{"traceId", trace.context.trace_id}, {"spanId", ids.back()}};
    const std::string& parent =
        is_root ? trace.context.parent_id : ids[static_cast<size_t>(span.parent)];
    if (!parent.empty()) json["parentSpanId"] = parent;
    if (!trace.context.state.empty()) json["traceState"] = trace.context.state;
    json["name"] = span.name;
    json["kind"] = is_root ? kServer : kInternal;
    json["startTimeUnixNano"] = absl::StrCat(span.begin_ns);
    json["endTimeUnixNano"] = absl::StrCat(span.end_ns);
    json["attributes"] = KeyValues(span.attributes);
    if (!span.error.empty()) json["status"] = {{"code", kError}, {"message", span.error}};
    spans.push_back(std::move(json));
  }
}

}  // namespace

std::string TraceText(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<Json> ChromeEvents(const RequestTrace& trace, int pid, absl::Span<const int> tracks) {
  std::vector<Json> events;
  for (size_t i = 0; i < trace.spans.size(); ++i) {
    const TraceSpan& span = trace.spans[i];
    // Both ends are rounded alike, so that what is contained stays contained.
    const int64_t begin = span.begin_ns / kNsPerUs, end = span.end_ns / kNsPerUs;
    Json args = Json::object();
    for (const auto& [key, value] : span.attributes) args[key] = Plain(value);
    if (!span.error.empty()) args["error"] = span.error;
    if (span.parent < 0) args["trace_id"] = trace.context.trace_id;
    events.push_back({{"name", span.name},
                      {"cat", "request"},
                      {"ph", "X"},
                      {"ts", begin},
                      {"dur", end - begin},
                      {"pid", pid},
                      {"tid", tracks[i]},
                      {"args", std::move(args)}});
  }
  return events;
}

std::string OtlpBody(const OtlpResource& resource, absl::Span<const RequestTrace> traces) {
  Json spans = Json::array();
  for (const RequestTrace& trace : traces) AppendSpans(trace, spans);
  Json scope_spans = Json::array();
  scope_spans.push_back(
      {{"scope", {{"name", "baton.router"}, {"version", Version()}}}, {"spans", std::move(spans)}});
  Json resource_spans = Json::array();
  resource_spans.push_back({{"resource", {{"attributes", KeyValues(resource.attributes)}}},
                            {"scopeSpans", std::move(scope_spans)}});
  return TraceText({{"resourceSpans", std::move(resource_spans)}});
}

}  // namespace baton
