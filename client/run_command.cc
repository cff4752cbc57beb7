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

#include "client/answer_report.h"
#include "client/generate_client.h"
#include "client/local_cluster.h"
#include "client/sampling_flags.h"
#include "client/signal_watcher.h"
#include "common/base/clock.h"
#include "common/base/progress_line.h"
#include "common/base/standard_output.h"
#include "common/base/status_macros.h"
#include "common/rpc/channel.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

constexpr absl::Duration kClusterStartTimeout = absl::Minutes(10);
constexpr absl::Duration kClusterStopGrace = absl::Seconds(2);
constexpr int kExitInterrupted = 130;

v1::GenerateRequest MakeRequest(const RunOptions& options) {
  v1::GenerateRequest request;
  request.set_stream(!options.json);
  request.set_return_token_ids(options.json);
  *request.mutable_sampling_params() = options.sampling;
  return request;
}

void AddMessage(v1::GenerateRequest& request, const std::string& role, const std::string& content) {
  v1::ChatMessage* message = request.mutable_chat()->add_messages();
  message->set_role(role);
  message->set_content(content);
}

// One line for people. A server that cannot be reached is the commonest error,
// and has a remedy.
std::string Describe(const absl::Status& status) {
  const bool unreachable =
      status.code() == absl::StatusCode::kUnavailable && ErrorReason(status).empty();
  return absl::StrCat(status.ToString(absl::StatusToStringMode::kWithNoExtraData),
                      unreachable ? "; `baton serve --model FILE` starts a server" : "");
}

// Shows one answer as it comes. The answer's text, or nothing after an error,
// which is printed.
std::optional<std::string> ShowAnswer(GenerateClient& client, const v1::GenerateRequest& request,
                                      const RunOptions& options, int* exit_code) {
  const auto answer =
      client.Generate(request, options.timeout, [&options](const std::string& text) {
        if (options.json) return;
        WriteOutput(text);
      });
  if (!options.json) WriteOutput("\n");
  if (!answer.ok()) {
    const bool interrupted = answer.status().code() == absl::StatusCode::kCancelled;
    if (!interrupted) {
      std::fprintf(stderr, "baton: %s\n", Describe(answer.status()).c_str());
    }
    *exit_code = interrupted ? kExitInterrupted : 1;
    return std::nullopt;
  }
  if (options.json) WriteOutput(FormatJson(*answer) + "\n");
  if (options.stats) std::fprintf(stderr, "%s", FormatStats(*answer).c_str());
  *exit_code = 0;
  return answer->text;
}

// Lines from a terminal until /bye or the end of input. The whole talk goes
// with every request.
int Chat(GenerateClient& client, const RunOptions& options) {
  std::fprintf(stderr,
               "A chat. /clear forgets it, /bye or Ctrl-D ends, Ctrl-C "
               "stops an answer.\n");
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

void RunCommand::AddFlags(FlagSet& flags) {
  flags.AddAddress("server", options_.server, "address of a router");
  flags.AddString("model", options_.model, "GGUF file to serve from here, instead of a server");
  flags.AddString("disaggregate", options_.disaggregate,
                  "with --model: where to prefill (auto, always, never)");
  flags.AddDuration("timeout", options_.timeout, absl::Milliseconds(1), absl::Hours(24),
                    "of one answer");
  AddTlsFlags(flags, options_.tls);
  flags.AddPositional("prompt", options_.prompt,
                      "the prompt; without it stdin when piped, else a chat");
  flags.AddString("system", options_.system, "system message");
  flags.AddBool("raw", options_.raw,
                "no chat template: the text as it is, special tokens recognised");
  AddSamplingFlags(flags, options_.sampling);
  flags.AddBool("json", options_.json, "print one JSON object instead of the text");
  flags.AddBool("stats", options_.stats, "print the timeline and rates on stderr");
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
  const std::string address = cluster != nullptr ? cluster->address() : options.server;
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
