#include "common/net/door_flags.h"

#include "common/flags/flag_group.h"

namespace baton {

void AddServerKeyFlags(FlagSet& flags, std::string& api_keys, std::string& serve_key_file) {
  flags.SetGroup(FlagGroup::kSecurity);
  flags.AddString("api-keys=FILE", api_keys,
                  "File of tenants, API keys and limits, written by `baton keys`; every client "
                  "then needs a key or a certificate");
  flags.AddString(
      "serve-key-file=FILE", serve_key_file,
      "File with your own API keys, one per line, mode 0600; clients then need a key or "
      "certificate");
  flags.AddForeign("api-key",
                   "others can read a key on a command line; write it to a file of mode 0600 and "
                   "give --serve-key-file FILE");
}

void AddTlsClientCaFlag(FlagSet& flags, std::string& file) {
  flags.SetGroup(FlagGroup::kSecurity);
  flags.AddString("tls-client-ca=FILE", file,
                  "CA that signs certificates of clients only (PEM). Clients may show such a "
                  "certificate instead of an API key");
}

void AddFleetSecretFlag(FlagSet& flags, std::string& file) {
  flags.SetGroup(FlagGroup::kSecurity);
  flags.AddString("fleet-secret-file=FILE", file,
                  "File with the fleet's secret (64 hexadecimal digits), used to keep the cached "
                  "prefixes of tenants apart; all routers of a fleet need the same one. Empty: a "
                  "secret stored for this user if --listen is on loopback, else a random one");
}

void AddHttpAccessFlags(FlagSet& flags, std::vector<std::string>& cors_origins,
                        std::vector<std::string>& allowed_hosts) {
  flags.SetGroup(FlagGroup::kHttp);
  flags.AddStrings("http-cors-origin=ORIGIN", cors_origins,
                   "Origin whose web pages may call the HTTP API from a browser, such as "
                   "https://example.org; *: any origin. May be repeated");
  flags.AddStrings("http-allow-host=HOST", allowed_hosts,
                   "Host name or address allowed in the Host header of requests without a key, "
                   "besides loopback; *: any. May be repeated. --insecure also allows any IP "
                   "address and local names");
}

void AddDisaggregateFlag(FlagSet& flags, std::string& disaggregate) {
  flags.SetGroup(FlagGroup::kPrefillDecode);
  flags.AddString("disaggregate=auto|always|never|N", disaggregate,
                  "Workers that prefill prompts. always: prefill workers; never: decode workers; "
                  "auto: those estimated to be faster; N: prefill workers if at least N tokens are "
                  "not cached");
}

void AddMaxQueueTimeFlag(FlagSet& flags, absl::Duration& max_queue_time) {
  flags.SetGroup(FlagGroup::kLoad);
  flags.AddDuration("max-queue-time", max_queue_time, absl::ZeroDuration(), absl::Hours(1),
                    "Longest time that a request may wait for a worker. A request that would wait "
                    "longer is rejected (HTTP 429). 0: no limit");
}

void AddRequestRecordFlags(FlagSet& flags, const RequestRecordValues& values) {
  flags.SetGroup(FlagGroup::kObservability);
  flags.AddString("access-log=FILE|stderr|none", values.access_log,
                  "Destination of one line per finished request, without prompt and answer texts. "
                  "A file may be moved away for rotation");
  flags.AddString("trace-file=FILE", values.trace_file,
                  "File for the stages of every finished request, as Trace Events for Perfetto; "
                  "renamed to FILE.1 at a restart. Empty: none");
  flags.AddBytes("trace-file-bytes", values.trace_file_bytes,
                 "Size at which --trace-file is renamed to FILE.1 and a new file begins; at least "
                 "1 MiB");
  flags.AddString("otlp-endpoint=URL", values.otlp_endpoint,
                  "OpenTelemetry collector that receives the spans of requests, such as "
                  "http://collector:4318 (OTLP over HTTP, JSON). Empty: OTEL_* variables decide");
  flags.AddDouble("otlp-sample-ratio=SHARE", values.otlp_sample_ratio, 0, 1,
                  "Share of requests whose spans are exported, 0 to 1; the traceparent header of "
                  "a request, if any, decides instead");
}

}  // namespace baton
