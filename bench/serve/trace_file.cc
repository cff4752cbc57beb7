#include "bench/serve/trace_file.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include <nlohmann/json.hpp>

#include "common/base/plain_text.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr int kMaxTokens = 1 << 20;
constexpr int kMooncakePageTokens = 512;
constexpr double kMaxTraceMilliseconds = 1e12;  // thirty years
constexpr size_t kMaxTraceRequests = 10'000'000;
constexpr absl::string_view kAzureHead = "TIMESTAMP,ContextTokens,GeneratedTokens";

enum class TraceFormat { kMooncake, kAzure, kPages };

// A line as it is written. `at` counts from a time that is one for the whole file.
absl::StatusOr<TraceRequest> ParseMooncake(const std::string& line) {
  const auto wrong = [](absl::string_view what) {
    return absl::InvalidArgumentError(
        absl::StrCat(what,
                     "; a line is {\"timestamp\": milliseconds, \"input_length\": tokens, "
                     "\"output_length\": tokens, \"hash_ids\": [ids]}"));
  };
  const nlohmann::json json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return wrong("is not a JSON object");
  TraceRequest request;
  const auto time = json.find("timestamp");
  if (time == json.end() || !time->is_number() || time->get<double>() < 0 ||
      time->get<double>() > kMaxTraceMilliseconds) {
    return wrong("timestamp must be a number of milliseconds that is not negative");
  }
  request.at = absl::Milliseconds(time->get<double>());
  for (const auto& [name, tokens] : {std::pair("input_length", &request.input_tokens),
                                     std::pair("output_length", &request.output_tokens)}) {
    const auto length = json.find(name);
    if (length == json.end() || !length->is_number_unsigned() || length->get<uint64_t>() < 1 ||
        length->get<uint64_t>() > kMaxTokens) {
      return wrong(absl::StrCat(name, " must be 1 to 1048576"));
    }
    *tokens = length->get<int>();
  }
  if (const auto ids = json.find("hash_ids"); ids != json.end()) {
    if (!ids->is_array()) return wrong("hash_ids must be an array");
    for (const auto& id : *ids) {
      if (!id.is_number_unsigned()) return wrong("a hash id must be a whole number");
      request.pages.push_back(id.get<uint64_t>());
    }
  }
  return request;
}

absl::StatusOr<TraceRequest> ParseAzure(const std::string& line) {
  const std::vector<std::string> columns = absl::StrSplit(line, ',');
  TraceRequest request;
  absl::Time at;
  std::string error;
  const bool good =
      columns.size() == 3 &&
      absl::ParseTime("%Y-%m-%d %H:%M:%E*S", columns[0], absl::UTCTimeZone(), &at, &error) &&
      absl::SimpleAtoi(columns[1], &request.input_tokens) &&
      absl::SimpleAtoi(columns[2], &request.output_tokens) && request.input_tokens >= 1 &&
      request.input_tokens <= kMaxTokens && request.output_tokens >= 1 &&
      request.output_tokens <= kMaxTokens;
  if (!good) {
    return absl::InvalidArgumentError(
        "must be 'YYYY-MM-DD hh:mm:ss.fraction,prompt tokens,output tokens', with 1 to 1048576 "
        "tokens");
  }
  request.at = at - absl::UnixEpoch();
  return request;
}

absl::StatusOr<TraceRequest> ParsePages(const std::string& line) {
  const std::vector<std::string> columns = absl::StrSplit(line, ',');
  TraceRequest request;
  bool good = columns.size() == 3 && absl::SimpleAtoi(columns[0], &request.input_tokens) &&
              absl::SimpleAtoi(columns[1], &request.output_tokens) && request.input_tokens > 0 &&
              request.output_tokens > 0 && request.input_tokens <= kMaxTokens &&
              request.output_tokens <= kMaxTokens;
  if (good) {
    for (absl::string_view page : absl::StrSplit(columns[2], ' ', absl::SkipEmpty())) {
      good = absl::SimpleAtoi(page, &request.pages.emplace_back()) && good;
    }
  }
  if (good) return request;
  return absl::InvalidArgumentError(
      "must be 'prompt tokens, output tokens, ids of the prompt's blocks', with 1 to 1048576 "
      "tokens");
}

absl::StatusOr<TraceRequest> ParseTraceLine(TraceFormat format, const std::string& line) {
  switch (format) {
    case TraceFormat::kMooncake:
      return ParseMooncake(line);
    case TraceFormat::kAzure:
      return ParseAzure(line);
    case TraceFormat::kPages:
      break;
  }
  return ParsePages(line);
}

int Scaled(int tokens, double scale, int most) {
  const double scaled = std::round(static_cast<double>(tokens) * scale);
  return static_cast<int>(std::clamp(scaled, 1.0, static_cast<double>(most)));
}

// Leaves out what the options leave out, and scales the rest. REQUIRES: there are requests.
void Apply(const TraceOptions& options, Trace& trace) {
  std::vector<TraceRequest>& requests = trace.requests;
  std::stable_sort(requests.begin(), requests.end(),
                   [](const TraceRequest& a, const TraceRequest& b) { return a.at < b.at; });
  const absl::Duration from = requests.front().at + options.start;
  requests.erase(requests.begin(),
                 std::find_if(requests.begin(), requests.end(),
                              [&](const TraceRequest& request) { return request.at >= from; }));
  if (requests.empty()) return;
  if (options.max_requests > 0 && requests.size() > static_cast<size_t>(options.max_requests)) {
    requests.resize(static_cast<size_t>(options.max_requests));
  }
  const absl::Duration first = requests.front().at;
  for (TraceRequest& request : requests) {
    request.at = (request.at - first) * options.time_scale;
    request.input_tokens =
        Scaled(request.input_tokens, options.input_scale, options.max_input_tokens);
    request.output_tokens =
        Scaled(request.output_tokens, options.output_scale, options.max_output_tokens);
  }
  trace.page_tokens = Scaled(trace.page_tokens, options.input_scale, kMaxTokens);
}

}  // namespace

absl::StatusOr<Trace> ReadTrace(const std::string& path, const TraceOptions& options) {
  const std::string name = absl::StrCat("trace ", path);
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat(name, ": cannot be read"));
  Trace trace;
  std::optional<TraceFormat> format;
  int number = 0;
  for (std::string line; std::getline(file, line);) {
    ++number;
    if (number == 1) line = std::string(WithoutByteOrderMark(line));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (line.empty() || line[0] == '#') continue;
    if (!format.has_value()) {
      format = line[0] == '{'       ? TraceFormat::kMooncake
               : line == kAzureHead ? TraceFormat::kAzure
                                    : TraceFormat::kPages;
      if (*format == TraceFormat::kMooncake) trace.page_tokens = kMooncakePageTokens;
      trace.has_times = *format != TraceFormat::kPages;
      if (*format == TraceFormat::kAzure) continue;
    }
    absl::StatusOr<TraceRequest> request = ParseTraceLine(*format, line);
    if (!request.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", number, ": ", request.status().message()));
    }
    if (trace.requests.size() == kMaxTraceRequests) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":", number, ": more than 10000000 requests; use a shorter file"));
    }
    trace.requests.push_back(*std::move(request));
  }
  if (file.bad()) return absl::DataLossError(absl::StrCat(name, ": cannot be read to its end"));
  if (!trace.requests.empty()) Apply(options, trace);
  if (trace.requests.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        name, ": has no requests",
        options.start > absl::ZeroDuration() ? " after --trace-start; lower --trace-start" : ""));
  }
  return trace;
}

}  // namespace baton
