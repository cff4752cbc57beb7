#include "client/run_command.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <iostream>
#include <iterator>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include <CLI/App.hpp>

#include "client/answer_report.h"
#include "client/generate_client.h"
#include "client/local_cluster.h"
#include "client/signal_watcher.h"
#include "common/base/clock.h"
#include "common/base/progress_line.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

constexpr char kDefaultServer[] = "127.0.0.1:50051";
constexpr absl::Duration kClusterStartTimeout = absl::Minutes(10);
constexpr absl::Duration kClusterStopGrace = absl::Seconds(2);
constexpr int kExitInterrupted = 130;

v1::GenerateRequest MakeRequest(const RunOptions& options) {
  v1::GenerateRequest request;
  request.set_stream(!options.json);
  request.set_return_token_ids(options.json);
  v1::SamplingParams& sampling = *request.mutable_sampling_params();
  if (options.max_tokens) sampling.set_max_tokens(*options.max_tokens);
  if (options.temperature) sampling.set_temperature(*options.temperature);
  if (options.top_p) sampling.set_top_p(*options.top_p);
  if (options.top_k) sampling.set_top_k(*options.top_k);
  if (options.min_p) sampling.set_min_p(*options.min_p);
  if (options.seed) sampling.set_seed(*options.seed);
  for (const std::string& stop : options.stop) sampling.add_stop(stop);
  return request;
}

void AddMessage(v1::GenerateRequest& request, const std::string& role, const std::string& content) {
  v1::ChatMessage* message = request.mutable_chat()->add_messages();
  message->set_role(role);
  message->set_content(content);
}

// One line for people. A server that cannot be reached is the commonest error, and has a remedy.
std::string Describe(const absl::Status& status) {
  const bool unreachable =
      status.code() == absl::StatusCode::kUnavailable && ErrorReason(status).empty();
  return absl::StrCat(status.ToString(absl::StatusToStringMode::kWithNoExtraData),
                      unreachable ? "; `baton serve --model FILE` starts a server" : "");
}

// Shows one answer as it comes. The answer's text, or nothing after an error, which is printed.
std::optional<std::string> ShowAnswer(GenerateClient& client, const v1::GenerateRequest& request,
                                      const RunOptions& options, int* exit_code) {
  const auto answer =
      client.Generate(request, options.timeout, [&options](const std::string& text) {
        if (options.json) return;
        std::fwrite(text.data(), 1, text.size(), stdout);
        std::fflush(stdout);
      });
  if (!options.json) std::fputc('\n', stdout);
  std::fflush(stdout);  // before anything on stderr
  if (!answer.ok()) {
    const bool interrupted = answer.status().code() == absl::StatusCode::kCancelled;
    if (!interrupted) {
      std::fprintf(stderr, "baton: %s\n", Describe(answer.status()).c_str());
    }
    *exit_code = interrupted ? kExitInterrupted : 1;
    return std::nullopt;
  }
  if (options.json) std::printf("%s\n", FormatJson(*answer).c_str());
  std::fflush(stdout);
  if (options.stats) std::fprintf(stderr, "%s", FormatStats(*answer).c_str());
  *exit_code = 0;
  return answer->text;
}

// Lines from a terminal until /bye or the end of input. The whole talk goes with every request.
int Chat(GenerateClient& client, const RunOptions& options) {
  std::fprintf(stderr, "A chat. /clear forgets it, /bye or Ctrl-D ends, Ctrl-C stops an answer.\n");
  v1::GenerateRequest talk = MakeRequest(options);
  const auto clear = [&] {
    talk.mutable_chat()->clear_messages();
    if (!options.system.empty()) AddMessage(talk, "system", options.system);
  };
  clear();
  std::string line;
  while (std::fprintf(stderr, ">>> "), std::getline(std::cin, line)) {
    if (line == "/bye") return 0;
    if (line.empty()) continue;
    if (line == "/clear") {
      clear();
      continue;
    }
    if (line[0] == '/') {
      std::fprintf(stderr, "unknown command %s: there are /clear and /bye\n", line.c_str());
      continue;
    }
    AddMessage(talk, "user", line);
    int exit_code = 0;
    const auto text = ShowAnswer(client, talk, options, &exit_code);
    if (text.has_value()) {
      AddMessage(talk, "assistant", *text);
    } else {
      talk.mutable_chat()
          ->mutable_messages()
          ->RemoveLast();  // an answer that broke off is not part of the talk
    }
  }
  std::fputc('\n', stderr);
  return 0;
}

int OneAnswer(GenerateClient& client, const RunOptions& options, const std::string& prompt) {
  v1::GenerateRequest request = MakeRequest(options);
  if (options.raw) {
    request.set_prompt(prompt);
    request.set_parse_special(true);
  } else {
    if (!options.system.empty()) AddMessage(request, "system", options.system);
    AddMessage(request, "user", prompt);
  }
  int exit_code = 0;
  ShowAnswer(client, request, options, &exit_code);
  return exit_code;
}

// Starts a cluster for `options.model` and waits until it answers.
absl::StatusOr<std::unique_ptr<LocalCluster>> StartCluster(const RunOptions& options,
                                                           const std::atomic<bool>& interrupted) {
  LocalClusterOptions cluster_options;
  cluster_options.binaries = options.binaries;
  cluster_options.model = options.model;
  cluster_options.listen = "127.0.0.1:0";
  cluster_options.router_args = {"--log-level=error"};
  cluster_options.worker_args = {"--log-level=error"};
  if (!options.disaggregate.empty()) {
    cluster_options.router_args.push_back(absl::StrCat("--disaggregate=", options.disaggregate));
  }
  auto started = LocalCluster::Start(cluster_options);
  if (!started.ok()) return started.status();
  auto cluster = std::make_unique<LocalCluster>(*std::move(started));
  const absl::Time begin = SteadyNow();
  ProgressLine progress("loading the model");
  while (!cluster->ready()) {
    if (interrupted) return absl::CancelledError("interrupted");
    if (SteadyNow() - begin > kClusterStartTimeout) {
      return absl::DeadlineExceededError(absl::StrCat("the workers were not ready within ",
                                                      absl::FormatDuration(kClusterStartTimeout)));
    }
    if (auto status = cluster->Poll(); !status.ok()) return status;
    progress.Tick();
    absl::SleepFor(absl::Milliseconds(20));
  }
  return cluster;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Connect(const std::string& address,
                                                       const TlsFlags& tls) {
  BATON_ASSIGN_OR_RETURN(const Credentials credentials, Credentials::Create(tls));
  return MakeChannel(address, credentials, ChannelPurpose::kClient);
}

}  // namespace

void RunCommand::AddFlags(CLI::App& app, FlagSet& flags) {
  flags.AddString("server", options_.server, "host:port of a router; default 127.0.0.1:50051");
  flags.AddString("model", options_.model, "GGUF file to serve from here, instead of a server");
  flags.AddString("disaggregate", options_.disaggregate,
                  "with --model: where to prefill (auto, always, never)");
  flags.AddDuration("timeout", options_.timeout, absl::Milliseconds(1), absl::Hours(24),
                    "of one answer");
  AddTlsFlags(flags, options_.tls);
  app.add_option("prompt", options_.prompt, "the prompt; without it stdin when piped, else a chat");
  app.add_option("--system", options_.system, "system message");
  app.add_flag("--raw", options_.raw,
               "no chat template: the text as it is, special tokens recognised");
  app.add_option("-n,--max-tokens", options_.max_tokens, "most tokens to generate");
  app.add_option("--temperature", options_.temperature, "0: greedy");
  app.add_option("--top-p", options_.top_p, "in (0, 1]");
  app.add_option("--top-k", options_.top_k, "0: off");
  app.add_option("--min-p", options_.min_p, "in [0, 1]");
  app.add_option("--seed", options_.seed, "same seed, same answer");
  app.add_option("--stop", options_.stop, "end before this string; may be repeated")
      ->allow_extra_args(false);
  app.add_flag("--json", options_.json, "print one JSON object instead of the text");
  app.add_flag("--stats", options_.stats, "print the timeline and rates on stderr");
}

int RunCommand::Run(const FlagSet&) {
  RunOptions& options = options_;
  options.binaries = ProgramFolder();
  std::optional<std::string> prompt = options.prompt;
  if (!prompt.has_value() && isatty(STDIN_FILENO) == 0) {
    prompt = std::string(std::istreambuf_iterator<char>(std::cin), {});
    if (!options.raw) prompt = std::string(absl::StripSuffix(*prompt, "\n"));
  }

  std::atomic<bool> interrupted = false;
  std::atomic<GenerateClient*> running = nullptr;
  const bool chat = !prompt.has_value();
  const SignalWatcher signals([&](int number) {
    GenerateClient* client = running;
    if (client != nullptr && number == SIGINT && client->Cancel()) return;
    interrupted = true;
    if (client != nullptr && number == SIGINT && chat) {
      std::fprintf(stderr, "\n/bye or Ctrl-D ends the chat\n>>> ");
      return;
    }
    if (client != nullptr) _exit(kExitInterrupted);
  });

  std::unique_ptr<LocalCluster> cluster;
  if (!options.model.empty()) {
    auto started = StartCluster(options, interrupted);
    if (!started.ok()) {
      if (interrupted) return kExitInterrupted;
      return ExitUsage("baton run", started.status());
    }
    cluster = *std::move(started);
  }
  std::string address = options.server.empty() ? kDefaultServer : options.server;
  if (cluster != nullptr) address = cluster->address();
  const auto channel = Connect(address, options.tls);
  if (!channel.ok()) return ExitUsage("baton run", channel.status());
  GenerateClient client(*channel);
  running = &client;
  const int exit_code = chat ? Chat(client, options) : OneAnswer(client, options, *prompt);
  running = nullptr;
  if (cluster != nullptr) cluster->Stop(kClusterStopGrace);
  return exit_code;
}

}  // namespace baton
