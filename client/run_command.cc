#include "client/run_command.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "client/answer_printer.h"
#include "client/answer_report.h"
#include "client/chat.h"
#include "client/prompt_input.h"
#include "client/run_arguments.h"
#include "client/sampling_flags.h"
#include "client/serve/signal_watcher.h"
#include "client/terminal/line_reader.h"
#include "client/utf8_check.h"
#include "common/base/clock.h"
#include "common/base/kv_type_name.h"
#include "common/base/log.h"
#include "common/base/max_choices.h"
#include "common/base/progress_line.h"
#include "common/base/standard_error.h"
#include "common/base/standard_output.h"
#include "common/base/status_macros.h"
#include "common/flags/flag_group.h"
#include "common/flags/flag_value.h"
#include "common/flags/shared_helps.h"
#include "common/gguf/gguf_file.h"
#include "common/hugging_face/open_model_file.h"
#include "common/net/channel.h"
#include "common/net/client_key.h"
#include "common/protocol/sampling_defaults.h"
#include "common/rpc/limits.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

constexpr char kProgram[] = "baton run";
constexpr absl::Duration kClusterStartTimeout = absl::Minutes(10);
constexpr absl::Duration kClusterStopGrace = absl::Seconds(2);
constexpr int kExitInterrupted = 130;

int ExitCode(const absl::Status& status) {
  if (status.ok()) return 0;
  return status.code() == absl::StatusCode::kCancelled ? kExitInterrupted : 1;
}

// A cluster of our own knows no keys.
absl::StatusOr<std::unique_ptr<GenerateClient>> ConnectToOwn(const LocalCluster& cluster) {
  BATON_ASSIGN_OR_RETURN(const auto channel, MakeChannel(cluster.address(), Credentials::Loopback(),
                                                         ChannelPurpose::kClient));
  return std::make_unique<GenerateClient>(channel);
}

absl::StatusOr<std::unique_ptr<GenerateClient>> Connect(const std::string& address,
                                                        const TlsFlags& tls,
                                                        const std::string& api_key_file) {
  BATON_ASSIGN_OR_RETURN(const Credentials credentials, Credentials::Create(tls));
  BATON_ASSIGN_OR_RETURN(ClientKey key, ClientKey::Read(api_key_file, address, credentials));
  BATON_ASSIGN_OR_RETURN(const auto channel,
                         MakeChannel(address, credentials, ChannelPurpose::kClient));
  return std::make_unique<GenerateClient>(channel, std::move(key));
}

// Adds the flag `name`, whose value is a number of log probabilities for `take`.
void AddLogprobsFlag(FlagSet& flags, const std::string& name, const std::string& help,
                     const std::function<void(int)>& take) {
  flags.Add(absl::StrCat(name, "=N"), help,
            {.set = [take](const std::string& text) -> absl::Status {
              BATON_ASSIGN_OR_RETURN(const int count, ParseInt(text, 0, kMaxLogprobs));
              take(count);
              return absl::OkStatus();
            }});
}

}  // namespace

void RunCommand::AddModelFlags(FlagSet& flags) {
  flags.SetGroup(FlagGroup::kModel);
  flags.AddString("model=FILE", model_,
                  "GGUF file or Hugging Face folder to load for this command, instead of calling "
                  "--server");
  flags.AddString(
      "quantize", quantize_,
      "Type to which floating-point weights are quantised while they are loaded; needs --model",
      {"none", "q8_0", "q4_0"});
  flags.AddString("kv-cache-dtype", kv_cache_dtype_, "Type of the KV cache; needs --model",
                  KvTypeNamesAndAuto());
  flags.AddString("disaggregate=auto|always|never|N", disaggregate_,
                  "Worker that prefills the prompt. always: the prefill worker; never: the decode "
                  "worker; auto: the one estimated to be faster; N: the prefill worker if at least "
                  "N tokens are not cached; needs --model");
  AddSamplingDefaultFlags(flags, sampling_defaults_, "; needs --model");
}

void RunCommand::AddRequestFlags(FlagSet& flags) {
  flags.SetGroup(FlagGroup::kRequest);
  flags.Add("system=TEXT", "System message", {.set = [this](const std::string& text) {
              system_ = text;
              return CheckUtf8(text);
            }});
  flags.AddBool("raw", raw_,
                "Send the prompt as it is, without the chat template; special tokens that are "
                "written out in it are recognised");
  AddSamplingFlags(flags, sampling_);
  AddResponseFormatFlags(flags, response_format_);
  flags.AddInt("n", choices_, 1, static_cast<int>(kMaxChoices),
               "Number of answers, each printed when it is complete. Not the same as -n, which is "
               "short for --max-tokens");
  flags.AddNamed<v1::Speculative>(
      "speculative", speculative_,
      "Guess tokens so that one decode step yields several; the answer stays the same. ngram: from "
      "earlier text; draft: with the server's draft model; auto: by either method, as long as that "
      "is faster; default: the server's own setting",
      {{"default", v1::SPECULATIVE_UNSPECIFIED},
       {"auto", v1::SPECULATIVE_AUTO},
       {"ngram", v1::SPECULATIVE_NGRAM},
       {"draft", v1::SPECULATIVE_DRAFT},
       {"none", v1::SPECULATIVE_NONE}});
  flags.AddDuration("timeout", timeout_, absl::Milliseconds(1), absl::Hours(24),
                    kRequestTimeoutHelp);
}

void RunCommand::AddOutputFlags(FlagSet& flags) {
  flags.SetGroup(FlagGroup::kOutput);
  flags.AddBool("json", json_, kJsonHelp);
  flags.AddBool("stats", stats_,
                "Print the sampling parameters, a timeline and token rates to standard error");
  AddLogprobsFlag(flags, "logprobs",
                  "Print the log probability of each token of the answer, and of the N most likely "
                  "tokens in its place; needs --json",
                  [this](int count) { sampling_.set_logprobs(count); });
  AddLogprobsFlag(flags, "prompt-logprobs",
                  "Print the log probability of each token of the prompt, and of the N most likely "
                  "tokens in its place; needs --json",
                  [this](int count) { sampling_.set_prompt_logprobs(count); });
}

void RunCommand::AddFlags(FlagSet& flags) {
  flags.AddPositional("MODEL", first_, "GGUF file or Hugging Face folder, as for --model");
  flags.AddPositional("PROMPT", second_,
                      "Text to answer. Piped standard input is appended after an empty line, or "
                      "ignored if it stays silent for 10 s. Without a prompt, on a terminal, a "
                      "chat begins");
  flags.SetGroup(FlagGroup::kConnection);
  flags.AddAddress("server", server_, "Address of the router that answers");
  AddRequestFlags(flags);
  AddOutputFlags(flags);
  AddModelFlags(flags);
  AddTlsFlags(flags, tls_);
  AddApiKeyFlag(flags, api_key_file_);
  flags.ShowFirst({"model", "server", "system", "max-tokens", "temperature", "json-schema", "n",
                   "json", "stats"});
  flags.AddExample("baton run \"Why is the sky blue?\"", "Ask the server at 127.0.0.1:50051");
  flags.AddExample("baton run model.gguf \"Why is the sky blue?\"",
                   "Load a model for a single answer");
  flags.AddExample("baton run", "Chat with the server; /help lists the chat's commands");
}

absl::Status RunCommand::TakeArguments(const FlagSet& flags) {
  BATON_ASSIGN_OR_RETURN(RunArguments arguments, ReadRunArguments(first_, second_));
  prompt_ = std::move(arguments.prompt);
  if (arguments.model.empty()) return absl::OkStatus();
  // The command line takes precedence over a model that the environment or the file names.
  const bool named = flags.Given("model") && flags.Label("model") == "--model";
  if (named || flags.Given("server")) {
    return absl::InvalidArgumentError(absl::StrCat(flags.Label(named ? "model" : "server"),
                                                   " and the model '", LogSafe(arguments.model),
                                                   "' exclude each other; give one of them"));
  }
  model_ = std::move(arguments.model);
  return absl::OkStatus();
}

absl::Status RunCommand::Check(const FlagSet& flags) const {
  BATON_RETURN_IF_ERROR(flags.CheckNotBoth("server", "model"));
  if (raw_) BATON_RETURN_IF_ERROR(flags.CheckNotBoth("raw", "system"));
  if (model_.empty()) {
    for (const char* name : {"disaggregate", "kv-cache-dtype", "quantize", "generation-config",
                             "default-temperature", "default-top-p"}) {
      BATON_RETURN_IF_ERROR(flags.CheckNeeds(name, "model"));
    }
  }
  BATON_RETURN_IF_ERROR(flags.CheckNeeds("prompt-logprobs", "json"));
  return flags.CheckNeeds("logprobs", "json");
}

absl::StatusOr<v1::GenerateRequest> RunCommand::MakeRequest(const FlagSet& flags) {
  v1::GenerateRequest request;
  request.set_stream(true);
  request.set_return_token_ids(true);
  request.set_speculative(speculative_);
  BATON_ASSIGN_OR_RETURN(v1::ResponseFormat format, ReadResponseFormat(flags, response_format_));
  if (format.form_case() != v1::ResponseFormat::FORM_NOT_SET) {
    *request.mutable_response_format() = std::move(format);
  }
  v1::SamplingParams& sampling = *request.mutable_sampling_params();
  sampling = sampling_;
  if (choices_ > 1) sampling.set_n(static_cast<uint32_t>(choices_));
  if (model_.empty()) return request;  // the server decides the rest of the sampling
  BATON_ASSIGN_OR_RETURN(const GgufFile model, OpenModelFile(model_));
  BATON_ASSIGN_OR_RETURN(kv_layout_, KvLayoutOf(model, kv_cache_dtype_));
  // The router of our own would do the same. Done here, --stats can report it.
  BATON_ASSIGN_OR_RETURN(v1::SamplingParams filled, DefaultSampling(model, sampling_defaults_));
  filled.MergeFrom(sampling);
  sampling = std::move(filled);
  return request;
}

absl::StatusOr<std::unique_ptr<LocalCluster>> RunCommand::StartCluster(
    const std::atomic<bool>& interrupted) const {
  LocalClusterOptions options;
  options.binaries = ProgramFolder();
  options.model = model_;
  options.listen = "127.0.0.1:0";
  options.router_args = {"--log-level=error",
                         "--generation-config=" + sampling_defaults_.generation_config};
  options.worker_args = {"--log-level=error", "--kv-cache-dtype=" + kv_cache_dtype_,
                         "--quantize=" + quantize_};
  if (!disaggregate_.empty()) {
    options.router_args.push_back(absl::StrCat("--disaggregate=", disaggregate_));
  }
  BATON_ASSIGN_OR_RETURN(LocalCluster started, LocalCluster::Start(options));
  auto cluster = std::make_unique<LocalCluster>(std::move(started));
  const absl::Time begin = SteadyNow();
  ProgressLine progress("loading the model");
  while (!cluster->ready()) {
    if (interrupted) return absl::CancelledError("interrupted");
    if (SteadyNow() - begin > kClusterStartTimeout) {
      return absl::DeadlineExceededError(absl::StrCat("the workers were not ready within ",
                                                      absl::FormatDuration(kClusterStartTimeout)));
    }
    BATON_RETURN_IF_ERROR(cluster->Poll());
    progress.Tick();
    absl::SleepFor(absl::Milliseconds(20));
  }
  return cluster;
}

Answer RunCommand::Ask(GenerateClient& client, v1::GenerateRequest request) const {
  Answer answer;
  AnswerPrinter printer(answer);
  const auto generate = [&] {
    client.Generate(
        request, timeout_,
        [&](const v1::GenerateResponse& event) {
          if (!json_) printer.Take(event);
        },
        answer);
  };
  v1::SamplingParams& sampling = *request.mutable_sampling_params();
  if (sampling.has_max_tokens()) {
    generate();
  } else {
    sampling.set_max_tokens(std::max(kDefaultMaxTokens, sampling.min_tokens()));
    generate();
    if (ErrorReason(answer.status) == kReasonContextLengthExceeded) {
      sampling.clear_max_tokens();  // the context leaves fewer tokens than the default limit
      generate();
    }
  }
  if (json_) {
    WriteOutput(FormatJson(answer, timeout_) + "\n");
  } else {
    printer.End();
  }
  if (ExitCode(answer.status) == 1) {
    WriteErrorLine("baton", DescribeFailure(answer, timeout_));
  } else if (answer.status.ok() && stats_) {
    WriteNotice(FormatStats(answer, request, kv_layout_));
  }
  return answer;
}

int RunCommand::Talk(GenerateClient& client, v1::GenerateRequest request,
                     const std::optional<std::string>& prompt) const {
  if (!prompt.has_value()) {
    Chat chat(std::move(request), system_,
              [&](const v1::GenerateRequest& talk) -> std::optional<std::string> {
                const Answer answer = Ask(client, talk);
                const bool interrupted = absl::IsCancelled(answer.status);
                if (!answer.status.ok() && !interrupted) return std::nullopt;
                if (answer.choices.empty() || answer.choices[0].text().empty()) {
                  if (interrupted) WriteNotice("no word of an answer came; ask again\n");
                  return std::nullopt;
                }
                return answer.choices[0].text();
              });
    chat.Run(*StandardInputLines());
    return 0;
  }
  if (raw_) {
    request.set_prompt(*prompt);
    request.set_parse_special(true);
  } else {
    if (!system_.empty()) AddMessage(request, "system", system_);
    AddMessage(request, "user", *prompt);
  }
  return ExitCode(Ask(client, std::move(request)).status);
}

int RunCommand::Run(const FlagSet& flags) {
  absl::Status checked = TakeArguments(flags);
  if (checked.ok()) checked = Check(flags);
  if (!checked.ok()) return ExitUsage(kProgram, checked);
  auto prompt = ReadPrompt({.argument = prompt_, .raw = raw_});
  if (!prompt.ok()) return ExitUsage(kProgram, prompt.status());
  const bool chat = !prompt->has_value();
  if (chat && (raw_ || choices_ > 1)) {
    return ExitUsage(kProgram, absl::InvalidArgumentError(
                                   absl::StrCat(flags.Label(raw_ ? "raw" : "n"),
                                                " cannot be used in a chat; give a prompt")));
  }
  auto request = MakeRequest(flags);
  if (!request.ok()) return ExitUsage(kProgram, request.status());

  std::atomic<bool> interrupted = false;
  std::atomic<GenerateClient*> running = nullptr;
  const SignalWatcher signals([&](int number) {
    GenerateClient* client = running;
    if (client != nullptr && number == SIGINT && client->Cancel()) return;
    interrupted = true;
    if (client != nullptr && number == SIGINT && chat) {
      WriteNotice("\n/bye or Ctrl-D ends the chat\n>>> ");
      return;
    }
    if (client != nullptr) _exit(kExitInterrupted);
  });

  std::unique_ptr<LocalCluster> cluster;
  if (!model_.empty()) {
    auto started = StartCluster(interrupted);
    if (!started.ok()) {
      if (interrupted) return kExitInterrupted;
      return ExitUsage(kProgram, started.status());
    }
    cluster = *std::move(started);
  }
  const auto client =
      cluster != nullptr ? ConnectToOwn(*cluster) : Connect(server_, tls_, api_key_file_);
  if (!client.ok()) return ExitUsage(kProgram, client.status());
  running = client->get();
  const int exit_code = Talk(**client, *std::move(request), *prompt);
  running = nullptr;
  if (cluster != nullptr) cluster->Stop(kClusterStopGrace);
  return exit_code;
}

}  // namespace baton
