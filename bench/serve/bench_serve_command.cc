#include "bench/serve/bench_serve_command.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/standard_output.h"
#include "common/base/status_macros.h"

namespace baton {
namespace {

constexpr char kProgram[] = "baton bench serve";

// Checks that no flag is given beside another that replaces it.
absl::Status CheckOptions(const FlagSet& flags) {
  for (const char* replaced :
       {"request-rate", "max-concurrency", "input-len", "output-len", "trace"}) {
    BATON_RETURN_IF_ERROR(flags.CheckNotBoth("class", replaced));
  }
  BATON_RETURN_IF_ERROR(flags.CheckNotBoth("trace", "input-len"));
  return flags.CheckNotBoth("trace", "output-len");
}

absl::StatusOr<LoadReport> Measure(const BenchServeOptions& options) {
  LoadOptions run = options.run;
  run.vocab_size = static_cast<uint32_t>(options.vocab_size);
  run.seed = static_cast<uint64_t>(options.seed);
  for (const std::string& text : options.classes) {
    BATON_ASSIGN_OR_RETURN(LoadClass load, ParseLoadClass(text));
    run.classes.push_back(std::move(load));
  }
  if (run.classes.empty()) run.classes = {options.load};
  BATON_ASSIGN_OR_RETURN(run.objective, ParseLoadObjective(options.objective));
  BATON_ASSIGN_OR_RETURN(const Credentials credentials, Credentials::Create(options.tls));
  BATON_ASSIGN_OR_RETURN(run.key, ClientKey::Read(options.api_key_file, run.server, credentials));
  BATON_ASSIGN_OR_RETURN(const auto load, LoadRun::Create(run, credentials));
  return load->Run();
}

}  // namespace

void BenchServeCommand::AddFlags(FlagSet& flags) {
  options_.run.server = "127.0.0.1:50051";
  flags.AddAddress("server", options_.run.server, "address of a router");
  flags.AddDouble("request-rate", options_.load.rate, 0, 1e6,
                  "requests/s, a Poisson process: no request waits for another's answer");
  flags.AddInt("max-concurrency", options_.load.concurrency, 0, 1 << 16,
               "instead: so many streams, each followed by the next");
  flags.AddInt("input-len", options_.load.input_tokens, 1, 1 << 20, "tokens of a prompt");
  flags.AddInt("output-len", options_.load.output_tokens, 1, 1 << 20, "tokens to generate");
  flags.AddString("trace", options_.load.trace,
                  "instead: file of lines 'prompt tokens, output tokens, page ids'");
  flags.AddTexts("class", options_.classes,
                 "instead of these, several loads at once, each "
                 "NAME:rate=R|concurrency=N,input=N,output=N,trace=FILE; may be repeated");
  flags.AddString("objective", options_.objective,
                  "what a good request keeps, as ttft=500ms,itl=100ms,tpot=50ms,e2e=10s");
  flags.AddDuration("duration", options_.run.duration, absl::Milliseconds(1), absl::Hours(24),
                    "of what is measured");
  flags.AddDuration("warmup", options_.run.warmup, absl::ZeroDuration(), absl::Hours(1),
                    "of the load before that");
  flags.AddDuration("timeout", options_.run.timeout, absl::Milliseconds(1), absl::Hours(24),
                    "of a request");
  flags.AddInt("connections", options_.run.connections, 1, 1024, "that the load goes over");
  flags.AddInt("vocab-size", options_.vocab_size, 1, 1 << 24, "prompts are of ids below it");
  flags.AddInt("seed", options_.seed, 0, INT32_MAX, "same seed, same load");
  AddTlsFlags(flags, options_.tls);
  AddApiKeyFlag(flags, options_.api_key_file);
  flags.AddBool("json", options_.json, "print JSON instead of tables");
}

int BenchServeCommand::Run(const FlagSet& flags) {
  if (const absl::Status status = CheckOptions(flags); !status.ok()) {
    return ExitUsage(kProgram, status);
  }
  const absl::StatusOr<LoadReport> report = Measure(options_);
  if (!report.ok()) return ExitUsage(kProgram, report.status());
  const std::string text = options_.json ? FormatJson(*report) + "\n" : FormatTable(*report);
  WriteOutput(text);
  return 0;
}

}  // namespace baton
