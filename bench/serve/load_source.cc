#include "bench/serve/load_source.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

#include "common/base/philox.h"
#include "common/base/status_macros.h"
#include "common/flags/flag_value.h"

namespace baton {
namespace {

constexpr int kMaxClassTokens = 1 << 20;

absl::Status CheckClass(const LoadClass& load) {
  const auto wrong = [&](const char* what) {
    return absl::InvalidArgumentError(absl::StrCat("class '", load.name, "': ", what));
  };
  if (load.rate < 0 || load.concurrency < 0) return wrong("nothing can be negative");
  if (load.rate > 0 && load.concurrency > 0) {
    return wrong("give a rate (requests/s) or a concurrency (streams), one of the two");
  }
  if (load.rate == 0 && load.concurrency == 0 && load.trace.empty()) {
    return wrong("give a rate (requests/s), a concurrency (streams) or a trace with times");
  }
  for (const int tokens : {load.input_tokens, load.output_tokens}) {
    if (tokens < 1 || tokens > kMaxClassTokens) return wrong("lengths are 1 to 1048576 tokens");
  }
  return absl::OkStatus();
}

absl::Status SetField(absl::string_view key, absl::string_view value, LoadClass* load) {
  const auto set_int = [&](int* field) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(const uint64_t count, ParseCount(value));
    *field = static_cast<int>(std::min<uint64_t>(count, INT32_MAX));
    return absl::OkStatus();
  };
  if (key == "concurrency") return set_int(&load->concurrency);
  if (key == "input") return set_int(&load->input_tokens);
  if (key == "output") return set_int(&load->output_tokens);
  if (key == "rate") {
    BATON_ASSIGN_OR_RETURN(load->rate, ParseNumber(value));
    return absl::OkStatus();
  }
  if (key == "trace") {
    load->trace = std::string(value);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("'", key, "' is not one of rate, concurrency, input, output, trace"));
}

}  // namespace

absl::StatusOr<LoadClass> ParseLoadClass(const std::string& text) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(text, absl::MaxSplits(':', 1));
  LoadClass load{.name = std::string(parts.first)};
  for (absl::string_view field : absl::StrSplit(parts.second, ',')) {
    const std::pair<absl::string_view, absl::string_view> pair =
        absl::StrSplit(field, absl::MaxSplits('=', 1));
    if (const absl::Status status = SetField(pair.first, pair.second, &load); !status.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("class '", text, "': ", field, ": ", status.message()));
    }
  }
  return load;
}

absl::StatusOr<LoadSource> LoadSource::Create(const LoadClass& load, const Options& options) {
  BATON_RETURN_IF_ERROR(CheckClass(load));
  Trace trace{
      .requests = {{.input_tokens = load.input_tokens, .output_tokens = load.output_tokens}}};
  if (!load.trace.empty()) {
    BATON_ASSIGN_OR_RETURN(trace, ReadTrace(load.trace, options.trace));
    if (!trace.has_times && load.rate == 0 && load.concurrency == 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "class '", load.name, "': trace ", load.trace,
          " has no timestamps; give a rate (requests/s) or a concurrency (streams) too"));
    }
  }
  return LoadSource(load, options, std::move(trace));
}

LoadSource::LoadSource(const LoadClass& load, const Options& options, Trace trace)
    : rate_(load.rate),
      options_(options),
      trace_(std::move(trace)),
      arrivals_(options.seed),
      tokens_(~options.seed) {}

std::optional<absl::Duration> LoadSource::NextArrival() {
  if (rate_ == 0) {
    if (arrivals_taken_ == trace_.requests.size()) return std::nullopt;
    arrival_ = trace_.requests[arrivals_taken_++].at;
  } else {
    constexpr double kUnit = 1.0 / (uint64_t{1} << 53);
    const double uniform = static_cast<double>(arrivals_() >> 11) * kUnit;  // [0, 1)
    arrival_ += absl::Seconds(-std::log1p(-uniform) / rate_);
  }
  return absl::Floor(arrival_, absl::Nanoseconds(1));
}

LoadRequest LoadSource::NextRequest() {
  const TraceRequest& next = NextLengths();
  LoadRequest request{.prompt = {}, .output_tokens = static_cast<uint32_t>(next.output_tokens)};
  const auto length = static_cast<size_t>(next.input_tokens);
  request.prompt.reserve(length);
  const auto page_tokens = static_cast<uint32_t>(trace_.page_tokens);
  for (const uint64_t page : next.pages) {
    const auto low = static_cast<uint32_t>(page), high = static_cast<uint32_t>(page >> 32);
    for (uint32_t i = 0; i < page_tokens && request.prompt.size() < length; ++i) {
      request.prompt.push_back(Philox4x32({low, i, high, 0}, options_.pages_seed)[0] %
                               options_.vocab_size);
    }
  }
  while (request.prompt.size() < length) {
    request.prompt.push_back(static_cast<uint32_t>(tokens_() % options_.vocab_size));
  }
  return request;
}

}  // namespace baton
