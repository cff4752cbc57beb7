// The `baton` command: subcommands and their flags; the work is in *_command.cc.
#include <algorithm>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include <CLI/CLI.hpp>

#include "client/bench_engine.h"
#include "client/bench_serve.h"
#include "client/bench_transfer.h"
#include "client/run_command.h"
#include "client/serve_command.h"
#include "client/tokenize_command.h"
#include "common/backend/cpu/cpu_set.h"
#include "common/base/log.h"
#include "common/rpc/flags.h"
#include "common/rpc/version.h"
#include "common/rpc/worker_flags.h"

namespace baton {
namespace {

// The folder this program is in: the servers are beside it.
std::string ProgramFolder() {
  return std::filesystem::read_symlink("/proc/self/exe").parent_path().string();
}

class TokenizeSubcommand {
 public:
  explicit TokenizeSubcommand(CLI::App& app)
      : app_(*app.add_subcommand("tokenize", "Print the token ids of a text as a JSON array")),
        flags_(app_) {
    flags_.AddString("model", options_.model, "GGUF file; its metadata part is enough");
    flags_.AddBool("special", options_.special, "recognise special-token literals");
    app_.add_option("text", options_.text, "the text; without it stdin, byte for byte");
  }
  const CLI::App& app() const { return app_; }
  int Run() {
    if (const absl::Status status = flags_.Resolve(); !status.ok()) {
      return ExitUsage("baton tokenize", status);
    }
    if (options_.model.empty()) {
      return ExitUsage("baton tokenize", absl::InvalidArgumentError("--model: name a GGUF file"));
    }
    return TokenizeCommand(options_);
  }

 private:
  CLI::App& app_;
  FlagSet flags_;
  TokenizeOptions options_;
};

class RunSubcommand {
 public:
  explicit RunSubcommand(CLI::App& app)
      : app_(*app.add_subcommand("run", "Stream one answer, or chat when there is no prompt")),
        flags_(app_) {
    flags_.AddString("server", options_.server, "host:port of a router; default 127.0.0.1:50051");
    flags_.AddString("model", options_.model, "GGUF file to serve from here, instead of a server");
    flags_.AddString("disaggregate", options_.disaggregate,
                     "with --model: where to prefill (auto, always, never)");
    flags_.AddDuration("timeout", options_.timeout, absl::Milliseconds(1), absl::Hours(24),
                       "of one answer");
    AddTlsFlags(flags_, options_.tls);
    app_.add_option("prompt", options_.prompt,
                    "the prompt; without it stdin when piped, else a chat");
    app_.add_option("--system", options_.system, "system message");
    app_.add_flag("--raw", options_.raw,
                  "no chat template: the text as it is, special tokens recognised");
    app_.add_option("-n,--max-tokens", options_.max_tokens, "most tokens to generate");
    app_.add_option("--temperature", options_.temperature, "0: greedy");
    app_.add_option("--top-p", options_.top_p, "in (0, 1]");
    app_.add_option("--top-k", options_.top_k, "0: off");
    app_.add_option("--min-p", options_.min_p, "in [0, 1]");
    app_.add_option("--seed", options_.seed, "same seed, same answer");
    app_.add_option("--stop", options_.stop, "end before this string; may be repeated")
        ->allow_extra_args(false);
    app_.add_flag("--json", options_.json, "print one JSON object instead of the text");
    app_.add_flag("--stats", options_.stats, "print the timeline and rates on stderr");
  }
  const CLI::App& app() const { return app_; }
  int Run() {
    if (const absl::Status status = flags_.Resolve(); !status.ok()) {
      return ExitUsage("baton run", status);
    }
    options_.binaries = ProgramFolder();
    return RunCommand(options_);
  }

 private:
  CLI::App& app_;
  FlagSet flags_;
  RunOptions options_;
};

// Whether `argument` ("--name=value") is one of the flags `names`.
bool IsOneOf(absl::string_view argument, absl::Span<const absl::string_view> names) {
  const absl::string_view name = absl::StripPrefix(argument.substr(0, argument.find('=')), "--");
  return std::find(names.begin(), names.end(), name) != names.end();
}

// Flags of `serve` that are about the router or the cluster, not about each worker.
constexpr absl::string_view kNotForWorkers[] = {
    "listen",       "health-listen",   "metrics-listen", "advertise",
    "check-config", "prefill-workers", "decode-workers", "disaggregate",
    "model",        "threads",         "cpu-set",        "gpu-memory-utilization"};

// Flags that the router shares with the workers, or has for itself.
constexpr absl::string_view kForRouter[] = {
    "metrics-listen", "disaggregate", "log-level", "log-format", "shutdown-timeout",
    "tls-cert",       "tls-key",      "tls-ca",    "insecure",   "tls-server-name"};

class ServeSubcommand {
 public:
  explicit ServeSubcommand(CLI::App& app)
      : app_(*app.add_subcommand("serve", "Serve a model on this machine: router and workers")),
        flags_(app_) {
    AddWorkerFlags(flags_, worker_);
    flags_.AddInt("prefill-workers", options_.prefill_workers, 0, 64, "how many");
    flags_.AddInt("decode-workers", options_.decode_workers, 1, 64, "how many");
    flags_.AddString("disaggregate", disaggregate_, "where to prefill: auto, always, never");
  }
  const CLI::App& app() const { return app_; }
  int Run() {
    absl::Status status = flags_.Resolve();
    if (status.ok()) status = ValidateWorkerFlags(worker_);
    if (status.ok()) {
      status = InitLogging("serve", worker_.server.log_level, worker_.server.log_format);
    }
    if (!status.ok()) return ExitUsage("baton serve", status);
    options_.binaries = ProgramFolder();
    options_.model = worker_.model;
    options_.listen = worker_.server.listen;
    options_.health_listen = worker_.server.health_listen;
    options_.threads = worker_.threads;
    options_.gpu_memory_utilization = worker_.gpu_memory_utilization;
    if (!worker_.cpu_set.empty()) options_.cpus = *ParseCpuSet(worker_.cpu_set);
    for (const std::string& argument : flags_.GivenArguments()) {
      if (!IsOneOf(argument, kNotForWorkers)) options_.worker_args.push_back(argument);
      if (IsOneOf(argument, kForRouter)) options_.router_args.push_back(argument);
    }
    return ServeCommand(options_, worker_.server.shutdown_timeout);
  }

 private:
  CLI::App& app_;
  FlagSet flags_;
  LocalClusterOptions options_;
  WorkerFlags worker_;
  std::string disaggregate_;
};

class BenchEngineSubcommand {
 public:
  explicit BenchEngineSubcommand(CLI::App& bench)
      : app_(*bench.add_subcommand("engine", "Time prefill and decode, without servers")),
        flags_(app_) {
    flags_.AddString("model", options_.model, "GGUF file");
    flags_.AddString(
        "shape", options_.shape,
        "instead: random weights in the shape of smollm2-135m, qwen2.5-0.5b, qwen3-0.6b, "
        "llama-3.2-1b, llama-3.2-3b or llama-3.1-8b");
    flags_.AddString("weights", options_.weights, "their type, such as q4_1, q8_0, q4_k, bf16");
    flags_.AddString("write-gguf", options_.write_gguf, "write the --shape there, measure nothing");
    AddComputeFlags(flags_, compute_);
    AddNumbers("-p,--n-prompt", options_.prompts, "tokens to prefill; 0: none");
    AddNumbers("-n,--n-gen", options_.generations, "steps to decode; 0: none");
    AddNumbers("-d,--n-depth", options_.depths, "tokens in the cache before");
    AddNumbers("-b,--batch", options_.batches, "sequences that decode together");
    app_.add_option("-r,--repetitions", options_.repetitions, "of each test");
    app_.add_flag("--json", options_.json, "print JSON instead of a table");
  }
  const CLI::App& app() const { return app_; }
  int Run() {
    if (const absl::Status status = flags_.Resolve(); !status.ok()) {
      return ExitUsage("baton bench engine", status);
    }
    options_.backend = {.device = compute_.device,
                        .threads = compute_.threads,
                        .cpu_set = compute_.cpu_set,
                        .cpu_isa = compute_.cpu_isa,
                        .deterministic = compute_.deterministic};
    options_.block_size = compute_.block_size;
    options_.kv_cache_dtype = compute_.kv_cache_dtype;
    options_.max_num_batched_tokens = compute_.max_num_batched_tokens;
    return BenchEngineCommand(options_);
  }

 private:
  // A flag for one or more numbers, separated by commas.
  void AddNumbers(const std::string& names, std::vector<int>& values, const std::string& help) {
    app_.add_option(names, values, help)->delimiter(',')->allow_extra_args(false);
  }

  CLI::App& app_;
  FlagSet flags_;
  BenchEngineOptions options_;
  WorkerFlags compute_;
};

class BenchTransferSubcommand {
 public:
  explicit BenchTransferSubcommand(CLI::App& bench)
      : app_(*bench.add_subcommand("transfer",
                                   "Time a KV cache's way between two processes on loopback")) {
    app_.add_option("--shape", options_.shape, "whose KV cache: as in `bench engine`");
    app_.add_option("--bytes", options_.bytes, "of the cache, about");
    app_.add_option("--device", options_.device,
                    "in whose memory the pushed caches are: cpu, cuda or cuda:N");
    app_.add_option("--message", options_.message_bytes,
                    "bytes of the messages to try, and of the socket's calls")
        ->delimiter(',')
        ->allow_extra_args(false);
    app_.add_option("--connections", options_.connections, "of the push, to try")
        ->delimiter(',')
        ->allow_extra_args(false);
    app_.add_option("--rounds", options_.rounds, "of everything in turn; medians count");
    app_.add_flag("--json", options_.json, "print JSON instead of a table");
  }
  const CLI::App& app() const { return app_; }
  int Run() {
    options_.unchecked_program = ProgramFolder() + "/baton-bench-unchecked";
    return BenchTransferCommand(options_);
  }

 private:
  CLI::App& app_;
  BenchTransferOptions options_;
};

class BenchServeSubcommand {
 public:
  explicit BenchServeSubcommand(CLI::App& bench)
      : app_(*bench.add_subcommand("serve", "Put a load on a router and measure what clients see")),
        flags_(app_) {
    options_.run.server = "127.0.0.1:50051";
    flags_.AddString("server", options_.run.server, "host:port of a router");
    flags_.AddDouble("request-rate", options_.load.rate, 0, 1e6,
                     "requests/s, a Poisson process: no request waits for another's answer");
    flags_.AddInt("max-concurrency", options_.load.concurrency, 0, 1 << 16,
                  "instead: so many streams, each followed by the next");
    flags_.AddInt("input-len", options_.load.input_tokens, 1, 1 << 20, "tokens of a prompt");
    flags_.AddInt("output-len", options_.load.output_tokens, 1, 1 << 20, "tokens to generate");
    flags_.AddString("trace", options_.load.trace,
                     "instead: file of lines 'prompt tokens, output tokens, page ids'");
    app_.add_option("--class", options_.classes,
                    "instead of these, several loads at once, each "
                    "NAME:rate=R|concurrency=N,input=N,output=N,trace=FILE; may be repeated")
        ->allow_extra_args(false);
    flags_.AddString("objective", options_.objective,
                     "what a good request keeps, as ttft=500ms,itl=100ms,tpot=50ms,e2e=10s");
    flags_.AddDuration("duration", options_.run.duration, absl::Milliseconds(1), absl::Hours(24),
                       "of what is measured");
    flags_.AddDuration("warmup", options_.run.warmup, absl::ZeroDuration(), absl::Hours(1),
                       "of the load before that");
    flags_.AddDuration("timeout", options_.run.timeout, absl::Milliseconds(1), absl::Hours(24),
                       "of a request");
    flags_.AddInt("connections", options_.run.connections, 1, 1024, "that the load goes over");
    flags_.AddInt("vocab-size", options_.vocab_size, 1, 1 << 24, "prompts are of ids below it");
    flags_.AddInt("seed", options_.seed, 0, INT32_MAX, "same seed, same load");
    AddTlsFlags(flags_, options_.tls);
    app_.add_flag("--json", options_.json, "print JSON instead of tables");
  }
  const CLI::App& app() const { return app_; }
  int Run() {
    if (const absl::Status status = flags_.Resolve(); !status.ok()) {
      return ExitUsage("baton bench serve", status);
    }
    return BenchServeCommand(options_);
  }

 private:
  CLI::App& app_;
  FlagSet flags_;
  BenchServeOptions options_;
};

int Main(int argc, char** argv) {
  CLI::App app("Baton serves large language models with prefill and decode on separate workers.",
               "baton");
  app.require_subcommand(1);
  app.set_version_flag("--version", Version());
  RunSubcommand run(app);
  ServeSubcommand serve(app);
  TokenizeSubcommand tokenize(app);
  CLI::App& bench = *app.add_subcommand("bench", "Measure speed");
  bench.require_subcommand(1);
  BenchEngineSubcommand bench_engine(bench);
  BenchServeSubcommand bench_serve(bench);
  BenchTransferSubcommand bench_transfer(bench);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
    return ExitUsage("baton",
                     absl::InvalidArgumentError(absl::StrCat(error.what(), "; see --help")));
  }
  if (run.app().parsed()) return run.Run();
  if (serve.app().parsed()) return serve.Run();
  if (bench_engine.app().parsed()) return bench_engine.Run();
  if (bench_serve.app().parsed()) return bench_serve.Run();
  if (bench_transfer.app().parsed()) return bench_transfer.Run();
  return tokenize.Run();
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) { return baton::Main(argc, argv); }
