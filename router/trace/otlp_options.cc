#include "router/trace/otlp_options.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "common/base/small_file.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

using Pairs = std::vector<std::pair<std::string, std::string>>;

constexpr char kTracesPath[] = "/v1/traces";

absl::Status Wrong(absl::string_view name, absl::string_view value, absl::string_view remedy) {
  return absl::InvalidArgumentError(absl::StrCat(name, " '", value, "': ", remedy));
}

// A variable of the environment, and what it was called.
struct Setting {
  std::string name{};
  std::string value{};  // empty: it is not set
};

// Reads OTEL_EXPORTER_OTLP_TRACES_..., or else what holds for all signals.
class Environment {
 public:
  explicit Environment(const std::function<std::string(const char*)>& variable)
      : variable_(variable) {}

  Setting Get(const std::string& name) const { return {name, variable_(name.c_str())}; }
  Setting OfExporter(absl::string_view end) const {
    Setting own = Get(absl::StrCat("OTEL_EXPORTER_OTLP_TRACES_", end));
    return own.value.empty() ? Get(absl::StrCat("OTEL_EXPORTER_OTLP_", end)) : own;
  }

 private:
  const std::function<std::string(const char*)>& variable_;
};

absl::Status CheckUrl(absl::string_view name, const std::string& url) {
  absl::string_view rest = url;
  const bool has_scheme =
      absl::ConsumePrefix(&rest, "http://") || absl::ConsumePrefix(&rest, "https://");
  const absl::string_view host = rest.substr(0, rest.find('/'));
  if (has_scheme && !host.empty() && host[0] != ':' && !absl::StrContains(rest, '@') &&
      rest.find_first_of("?# ") == absl::string_view::npos) {
    return absl::OkStatus();
  }
  // It may have a password in it.
  return Wrong(name, absl::StrContains(url, '@') ? "..." : url,
               "must be the URL of a collector for OTLP over HTTP, without a user, such as "
               "http://collector:4318");
}

std::string WithPath(const std::string& url) {
  const size_t host = url.find("://") + 3;
  const size_t slash = url.find('/', host);
  if (slash == std::string::npos) return url + kTracesPath;
  return slash + 1 == url.size() ? url.substr(0, slash) + kTracesPath : url;
}

absl::Status TakeEndpoint(const Environment& environment, OtlpOptions& options) {
  if (!options.endpoint.empty()) {
    BATON_RETURN_IF_ERROR(CheckUrl("--otlp-endpoint", options.endpoint));
    options.endpoint = WithPath(options.endpoint);
    return absl::OkStatus();
  }
  if (absl::AsciiStrToLower(environment.Get("OTEL_SDK_DISABLED").value) == "true") {
    return absl::OkStatus();
  }
  const Setting exporter = environment.Get("OTEL_TRACES_EXPORTER");
  if (exporter.value == "none") return absl::OkStatus();
  const Setting own = environment.Get("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
  const Setting base = environment.Get("OTEL_EXPORTER_OTLP_ENDPOINT");
  const Setting& given = own.value.empty() ? base : own;
  if (given.value.empty()) return absl::OkStatus();
  if (!exporter.value.empty() && exporter.value != "otlp") {
    return Wrong(exporter.name, exporter.value, "the router has otlp and none");
  }
  BATON_RETURN_IF_ERROR(CheckUrl(given.name, given.value));
  options.endpoint =
      own.value.empty() ? absl::StrCat(absl::StripSuffix(base.value, "/"), kTracesPath) : own.value;
  return absl::OkStatus();
}

absl::Status RefuseWhatIsNotThere(const Environment& environment) {
  const Setting protocol = environment.OfExporter("PROTOCOL");
  if (!protocol.value.empty() && protocol.value != "http/json") {
    return Wrong(
        protocol.name, protocol.value,
        "the router speaks http/json; set it so, and let the endpoint name the collector's "
        "port for HTTP, 4318");
  }
  const Setting compression = environment.OfExporter("COMPRESSION");
  if (!compression.value.empty() && compression.value != "none") {
    return Wrong(compression.name, compression.value, "the router does not compress; set none");
  }
  for (const char* end : {"CLIENT_KEY", "CLIENT_CERTIFICATE"}) {
    const Setting client = environment.OfExporter(end);
    if (!client.value.empty()) {
      return Wrong(client.name, client.value,
                   "the router shows the collector no certificate; take it out, and let "
                   "OTEL_EXPORTER_OTLP_HEADERS say who calls");
    }
  }
  return absl::OkStatus();
}

std::string PercentDecoded(absl::string_view text) {
  std::string decoded;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '%' && i + 2 < text.size() &&
        absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 1])) &&
        absl::ascii_isxdigit(static_cast<unsigned char>(text[i + 2]))) {
      decoded += static_cast<char>(std::stoi(std::string(text.substr(i + 1, 2)), nullptr, 16));
      i += 2;
    } else {
      decoded += text[i];
    }
  }
  return decoded;
}

// KEY=VALUE,KEY=VALUE, with values percent-encoded. The error does not show the value: it may be a
// secret.
absl::Status TakePairs(const Setting& setting, Pairs& pairs) {
  for (const absl::string_view part : absl::StrSplit(setting.value, ',', absl::SkipWhitespace())) {
    const std::pair<absl::string_view, absl::string_view> halves =
        absl::StrSplit(part, absl::MaxSplits('=', 1));
    const absl::string_view key = absl::StripAsciiWhitespace(halves.first);
    const std::string value = PercentDecoded(absl::StripAsciiWhitespace(halves.second));
    const bool printed = std::all_of(value.begin(), value.end(),
                                     [](unsigned char c) { return c >= ' ' && c != 127; });
    if (key.empty() || !absl::StrContains(part, '=') || !printed ||
        key.find_first_of(" :\r\n") != absl::string_view::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat(setting.name,
                       ": must be key=value pairs, separated by commas, without line "
                       "breaks"));
    }
    pairs.emplace_back(key, value);
  }
  return absl::OkStatus();
}

absl::Status TakeSampler(const Environment& environment, TraceSampler& sampler) {
  if (sampler.ratio < 1) return absl::OkStatus();  // the flag's
  const Setting kind = environment.Get("OTEL_TRACES_SAMPLER");
  if (kind.value.empty()) return absl::OkStatus();
  absl::string_view name = kind.value;
  sampler.by_parent = absl::ConsumePrefix(&name, "parentbased_");
  if (name == "always_on") return absl::OkStatus();
  if (name == "always_off") {
    sampler.ratio = 0;
    return absl::OkStatus();
  }
  if (name != "traceidratio") {
    return Wrong(kind.name, kind.value,
                 "the router has always_on, always_off and traceidratio, each also with "
                 "parentbased_ before it");
  }
  const Setting ratio = environment.Get("OTEL_TRACES_SAMPLER_ARG");
  if (ratio.value.empty()) return absl::OkStatus();
  if (!absl::SimpleAtod(ratio.value, &sampler.ratio) ||
      !(sampler.ratio >= 0 && sampler.ratio <= 1)) {
    return Wrong(ratio.name, ratio.value, "must be a number from 0 to 1");
  }
  return absl::OkStatus();
}

absl::Status TakeTimeout(const Setting& setting, absl::Duration& timeout) {
  constexpr int kMostMs = 600'000;
  if (setting.value.empty()) return absl::OkStatus();
  int ms = 0;
  if (!absl::SimpleAtoi(setting.value, &ms) || ms < 1 || ms > kMostMs) {
    return Wrong(setting.name, setting.value, "must be milliseconds, from 1 to 600000");
  }
  timeout = absl::Milliseconds(ms);
  return absl::OkStatus();
}

}  // namespace

bool TraceSampler::Samples(absl::string_view trace_id,
                           const std::optional<TraceParent>& parent) const {
  if (by_parent && parent.has_value()) return parent->sampled;
  if (ratio >= 1) return true;
  // The last 56 bits are random (W3C's Trace Context, level 2), and the same for all who see the
  // trace, so that all of them decide alike.
  constexpr size_t kRandomDigits = 14;
  constexpr int kRandomBits = 56;
  const std::string digits(trace_id.substr(trace_id.size() - kRandomDigits));
  return std::ldexp(static_cast<double>(std::stoull(digits, nullptr, 16)), -kRandomBits) < ratio;
}

absl::Status TakeOtelEnvironment(const std::function<std::string(const char*)>& variable,
                                 OtlpOptions& options) {
  const Environment environment(variable);
  BATON_RETURN_IF_ERROR(TakeEndpoint(environment, options));
  if (options.endpoint.empty()) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(RefuseWhatIsNotThere(environment));
  BATON_RETURN_IF_ERROR(TakePairs(environment.OfExporter("HEADERS"), options.headers));
  BATON_RETURN_IF_ERROR(TakePairs(environment.Get("OTEL_RESOURCE_ATTRIBUTES"), options.resource));
  BATON_RETURN_IF_ERROR(TakeTimeout(environment.OfExporter("TIMEOUT"), options.timeout));
  BATON_RETURN_IF_ERROR(TakeSampler(environment, options.sampler));
  for (auto pair = options.resource.begin(); pair != options.resource.end(); ++pair) {
    if (pair->first != "service.name") continue;
    options.service_name = pair->second;
    options.resource.erase(pair);
    break;
  }
  const Setting service = environment.Get("OTEL_SERVICE_NAME");
  if (!service.value.empty()) options.service_name = service.value;
  const Setting certificate = environment.OfExporter("CERTIFICATE");
  options.ca_file = certificate.value;
  if (!options.ca_file.empty()) {
    constexpr size_t kMostBytes = size_t{1} << 20;
    if (const auto read = ReadSmallFile(options.ca_file, kMostBytes); !read.ok()) {
      return Wrong(certificate.name, options.ca_file, read.status().message());
    }
  }
  return absl::OkStatus();
}

OtlpUrl SplitOtlpUrl(const std::string& url) {
  const size_t slash = url.find('/', url.find("://") + 3);
  if (slash == std::string::npos) return {url, "/"};
  return {url.substr(0, slash), url.substr(slash)};
}

}  // namespace baton
