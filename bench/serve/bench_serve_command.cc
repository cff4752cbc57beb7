#include "bench/serve/bench_serve_command.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "bench/serve/report/html_report.h"
#include "bench/serve/trace_flags.h"
#include "common/base/small_file.h"
#include "common/base/standard_output.h"
#include "common/base/status_macros.h"
#include "common/flags/flag_group.h"
#include "common/flags/shared_helps.h"

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
  AddTargetFlags(flags);
  AddRunFlags(flags);
  AddTraceFlags(flags, options_.load.trace, options_.run.trace);
  AddTlsFlags(flags, options_.tls);
  AddApiKeyFlag(flags, options_.api_key_file);
  flags.SetGroup(FlagGroup::kOutput);
  flags.AddString("html=FILE", options_.html, "Write a report with plots to this HTML file");
  flags.AddString("record=FILE", options_.run.record,
                  "Write the times of each request to this JSONL file");
  flags.AddBool("json", options_.json, kJsonHelp);
  flags.ShowFirst({"server", "http", "request-rate", "max-concurrency", "input-len", "output-len",
                   "trace", "objective", "html", "json"});
  flags.AddExample("baton bench serve --request-rate 4 --input-len 500 --output-len 100",
                   "Send 4 requests per second to the router on this machine");
  flags.AddExample("baton bench serve --http http://127.0.0.1:8000 --max-concurrency 8",
                   "Keep 8 streams busy at any OpenAI-compatible server");
  flags.AddExample("baton bench serve --trace conversation.jsonl --html run.html",
                   "Replay a trace and write a report");
}

void BenchServeCommand::AddTargetFlags(FlagSet& flags) {
  options_.grpc.server = "127.0.0.1:50051";
  flags.SetGroup(FlagGroup::kConnection);
  flags.AddAddress("server", options_.grpc.server, "Address of the router to measure by gRPC");
  flags.AddString("http=URL", options_.http,
                  "OpenAI-compatible server to measure over HTTP instead: HOST:PORT, "
                  "http://HOST:PORT or https://HOST/v1");
  flags.AddNamed<HttpEndpoint>(
      "endpoint", options_.http_target.endpoint,
      "API that --http calls: /v1/completions or /v1/chat/completions",
      {{"completions", HttpEndpoint::kCompletions}, {"chat", HttpEndpoint::kChatCompletions}});
  flags.AddString("http-model=NAME", options_.http_target.model,
                  "Model that --http requests; without it, the first that the server lists");
  flags.AddString("extra-body=JSON", options_.http_target.extra_body,
                  "JSON object that is merged into each request of --http; a field that is null is "
                  "removed");
  flags.AddInt("connections", options_.grpc.connections, 1, 1024,
               "Number of gRPC connections to --server; over HTTP, each request has its own");
  flags.AddDuration("timeout", options_.grpc.timeout, absl::Milliseconds(1), absl::Hours(24),
                    kRequestTimeoutHelp);
}

void BenchServeCommand::AddRunFlags(FlagSet& flags) {
  AddGeneratedLoadFlags(flags, options_.load, options_.seed);
  flags.AddInt("max-concurrency", options_.load.concurrency, 0, 1 << 16,
               "Number of streams that are kept busy, instead of --request-rate: each sends its "
               "next request when the previous one has ended; 0: no streams");
  flags.AddTexts("class=SPEC", options_.classes,
                 "Run several loads at once, one per --class: "
                 "NAME:rate=R|concurrency=N,input=N,output=N,trace=FILE");
  flags.AddInt("vocab-size", options_.vocab_size, 1, 1 << 24,
               "Number of different tokens in generated prompts, which use the token ids 0 to N-1");
  flags.AddDuration("duration", options_.run.duration, absl::Milliseconds(1), absl::Hours(24),
                    "Length of the measurement. A trace that is replayed at its recorded times is "
                    "measured to its end unless this is given");
  flags.AddDuration("warmup", options_.run.warmup, absl::ZeroDuration(), absl::Hours(1),
                    "Time of load before the measurement. A trace that is replayed at its recorded "
                    "times has no warm-up unless this is given");
  AddObjectiveFlag(flags, options_.run.objective);
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
