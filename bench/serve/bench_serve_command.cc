#include "bench/serve/bench_serve_command.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "bench/serve/report/html_report.h"
#include "bench/serve/trace_flags.h"
#include "common/base/small_file.h"
#include "common/base/standard_output.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr char kProgram[] = "baton bench serve";

// Checks that no flag is given beside another that replaces it, or without what it refers to.
absl::Status CheckOptions(const FlagSet& flags) {
  for (const char* replaced :
       {"request-rate", "max-concurrency", "input-len", "output-len", "trace"}) {
    BATON_RETURN_IF_ERROR(flags.CheckNotBoth("class", replaced));
  }
  BATON_RETURN_IF_ERROR(flags.CheckNotBoth("trace", "input-len"));
  BATON_RETURN_IF_ERROR(flags.CheckNotBoth("trace", "output-len"));
  for (const char* of_grpc : {"server", "connections"}) {
    BATON_RETURN_IF_ERROR(flags.CheckNotBoth("http", of_grpc));
  }
  for (const char* of_http : {"endpoint", "http-model", "extra-body"}) {
    BATON_RETURN_IF_ERROR(flags.CheckNeeds(of_http, "http"));
  }
  if (flags.Given("class")) return absl::OkStatus();  // a class may have a trace
  return CheckTraceFlags(flags);
}

absl::StatusOr<std::unique_ptr<LoadTarget>> MakeTarget(const BenchServeOptions& options) {
  BATON_ASSIGN_OR_RETURN(const Credentials credentials, Credentials::Create(options.tls));
  if (options.http.empty()) {
    GrpcTarget::Options grpc = options.grpc;
    BATON_ASSIGN_OR_RETURN(grpc.key,
                           ClientKey::Read(options.api_key_file, grpc.server, credentials));
    return GrpcTarget::Create(grpc, credentials);
  }
  HttpTarget::Options http = options.http_target;
  http.timeout = options.grpc.timeout;
  BATON_ASSIGN_OR_RETURN(http.url, ParseHttpUrl(options.http, credentials.secure()));
  // By https the key is never in plain text, even if the system's authorities count.
  const std::string seen_by = http.url.tls ? "localhost" : http.url.Authority();
  BATON_ASSIGN_OR_RETURN(http.key, ClientKey::Read(options.api_key_file, seen_by, credentials));
  return HttpTarget::Create(http, options.tls, credentials);
}

// Whether all requests are due at the times of traces.
bool ReplaysTraces(const std::vector<LoadClass>& classes) {
  return std::all_of(classes.begin(), classes.end(), [](const LoadClass& load) {
    return !load.trace.empty() && load.rate == 0 && load.concurrency == 0;
  });
}

absl::StatusOr<LoadReport> Measure(const BenchServeOptions& options, const FlagSet& flags) {
  LoadOptions run = options.run;
  run.vocab_size = static_cast<uint32_t>(options.vocab_size);
  run.seed = static_cast<uint64_t>(options.seed);
  run.target = options.http.empty() ? absl::StrCat("grpc://", options.grpc.server) : options.http;
  for (const std::string& text : options.classes) {
    BATON_ASSIGN_OR_RETURN(LoadClass load, ParseLoadClass(text));
    run.classes.push_back(std::move(load));
  }
  if (run.classes.empty()) run.classes = {options.load};
  if (ReplaysTraces(run.classes)) {
    if (!flags.Given("duration")) run.duration = absl::InfiniteDuration();
    if (!flags.Given("warmup")) run.warmup = absl::ZeroDuration();
  }
  BATON_ASSIGN_OR_RETURN(auto target, MakeTarget(options));
  BATON_ASSIGN_OR_RETURN(const auto load, LoadRun::Create(run, std::move(target)));
  return load->Run();
}

}  // namespace

void BenchServeCommand::AddFlags(FlagSet& flags) {
  options_.grpc.server = "127.0.0.1:50051";
  flags.AddAddress("server", options_.grpc.server, "address of a router, by gRPC");
  flags.AddString("http", options_.http,
                  "Measure an OpenAI server by HTTP instead: host:port, http://host:port or "
                  "https://host/v1");
  flags.AddNamed<HttpEndpoint>(
      "endpoint", options_.http_target.endpoint, "of the OpenAI server",
      {{"completions", HttpEndpoint::kCompletions}, {"chat", HttpEndpoint::kChatCompletions}});
  flags.AddString("http-model", options_.http_target.model,
                  "that the OpenAI server is asked for (default: the first of its /v1/models)");
  flags.AddString("extra-body", options_.http_target.extra_body,
                  "JSON object merged into each body by HTTP; null takes a field out");
  AddLoadFlags(flags);
  AddTraceFlags(flags, options_.load.trace, options_.run.trace);
  flags.AddString(
      "objective", options_.run.objective,
      "what a good request keeps, as ttft=500ms,itl_p95=100ms,itl=1s,tpot=50ms,e2e=10s");
  flags.AddDuration("duration", options_.run.duration, absl::Milliseconds(1), absl::Hours(24),
                    "of what is measured; of a trace's own times: all of the trace");
  flags.AddDuration("warmup", options_.run.warmup, absl::ZeroDuration(), absl::Hours(1),
                    "of the load before that; of a trace's own times: none");
  flags.AddDuration("timeout", options_.grpc.timeout, absl::Milliseconds(1), absl::Hours(24),
                    "of a request");
  flags.AddInt("connections", options_.grpc.connections, 1, 1024,
               "that the load goes over by gRPC; by HTTP each request has its own");
  flags.AddInt("vocab-size", options_.vocab_size, 1, 1 << 24, "prompts are of ids below it");
  flags.AddInt("seed", options_.seed, 0, INT32_MAX, "same seed, same load");
  AddTlsFlags(flags, options_.tls);
  AddApiKeyFlag(flags, options_.api_key_file);
  flags.AddString("record", options_.run.record,
                  "file to write each request's times into, as JSONL");
  flags.AddString("html", options_.html, "file to write a report with plots into");
  flags.AddBool("json", options_.json, "print JSON instead of tables");
}

void BenchServeCommand::AddLoadFlags(FlagSet& flags) {
  flags.AddDouble("request-rate", options_.load.rate, 0, 1e6,
                  "requests/s, a Poisson process: no request waits for another's answer");
  flags.AddInt("max-concurrency", options_.load.concurrency, 0, 1 << 16,
               "instead: so many streams, each followed by the next");
  flags.AddInt("input-len", options_.load.input_tokens, 1, 1 << 20, "tokens of a prompt");
  flags.AddInt("output-len", options_.load.output_tokens, 1, 1 << 20, "tokens to generate");
  flags.AddTexts("class", options_.classes,
                 "instead of these, several loads at once, each "
                 "NAME:rate=R|concurrency=N,input=N,output=N,trace=FILE; may be repeated");
}

int BenchServeCommand::Run(const FlagSet& flags) {
  if (const absl::Status status = CheckOptions(flags); !status.ok()) {
    return ExitUsage(kProgram, status);
  }
  if (!options_.html.empty()) {  // what cannot be written must not cost a run
    const absl::Status status = WriteSmallFile(options_.html, "", {.mode = 0644});
    if (!status.ok()) return ExitUsage(kProgram, status);
  }
  const absl::StatusOr<LoadReport> report = Measure(options_, flags);
  if (!report.ok()) return ExitUsage(kProgram, report.status());
  if (!options_.html.empty()) {
    const absl::Status status = WriteSmallFile(options_.html, FormatHtml(*report), {.mode = 0644});
    if (!status.ok()) return ExitUsage(kProgram, status);
  }
  const std::string text = options_.json ? FormatJson(*report) + "\n" : FormatTable(*report);
  WriteOutput(text);
  return 0;
}

}  // namespace baton
