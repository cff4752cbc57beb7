// Where spans go by OTLP, and which: the flags, and OpenTelemetry's variables of the environment
// (https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/).
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

#include "common/rpc/trace_context.h"

namespace baton {

// Decides which requests are exported.
struct TraceSampler {
  bool by_parent = true;  // the caller's trace decides if there is one
  double ratio = 1;       // share of all other requests, drawn by the trace's id

  // `trace_id`: 32 hexadecimal digits, drawn or the caller's.
  bool Samples(absl::string_view trace_id, const std::optional<TraceParent>& parent) const;
};

struct OtlpOptions {
  std::string endpoint{};  // URL of the collector; empty: nothing is exported
  TraceSampler sampler{};
  std::string service_name = "baton-router";
  std::vector<std::pair<std::string, std::string>> resource{};  // further attributes
  std::vector<std::pair<std::string, std::string>> headers{};   // for each export; may be secret
  std::string ca_file{};                       // PEM of https://; empty: the system's
  absl::Duration timeout = absl::Seconds(10);  // for each step of an export, and each retry
};

// Completes what the flags gave from the environment, which `variable` reads ("" if one is not
// set), and checks all. The flags come first: an endpoint, or a ratio below 1. An error names the
// flag or the variable, its value and the remedy: what is not supported is refused, not ignored.
absl::Status TakeOtelEnvironment(const std::function<std::string(const char*)>& variable,
                                 OtlpOptions& options);

// The parts of a URL that httplib wants.
struct OtlpUrl {
  std::string origin;  // scheme://host:port
  std::string path;    // begins with "/"
};
// REQUIRES: TakeOtelEnvironment has checked it.
OtlpUrl SplitOtlpUrl(const std::string& url);

}  // namespace baton
