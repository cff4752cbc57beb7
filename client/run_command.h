// `baton run` streams one answer, or holds an interactive chat.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "baton/v1/generation.pb.h"
#include "client/generate_client.h"
#include "client/response_format_flags.h"
#include "client/serve/local_cluster.h"
#include "common/flags/command.h"
#include "common/net/server_flags.h"
#include "common/protocol/sampling_defaults.h"
#include "common/worker/kv_memory.h"

namespace baton {

// Exit codes: 0 for success, 1 if the request failed, 2 for wrong input or a model that does not
// load, 130 after Ctrl-C, and those of WriteOutput.
class RunCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  void AddModelFlags(FlagSet& flags);
  void AddRequestFlags(FlagSet& flags);
  void AddOutputFlags(FlagSet& flags);
  // Takes the arguments without a flag. INVALID_ARGUMENT if --model or --server is given beside a
  // model.
  absl::Status TakeArguments(const FlagSet& flags);
  // Checks the flags that depend on one another, before anything is read.
  absl::Status Check(const FlagSet& flags) const;
  // Makes the request without its prompt or messages. Opens the model file where one is
  // served from here.
  absl::StatusOr<v1::GenerateRequest> MakeRequest(const FlagSet& flags);
  // Starts a cluster with the model and waits until it is ready.
  absl::StatusOr<std::unique_ptr<LocalCluster>> StartCluster(
      const std::atomic<bool>& interrupted) const;
  // Sends the request, shows the answer or the error, and returns the answer.
  Answer Ask(GenerateClient& client, v1::GenerateRequest request) const;
  // Sends the prompt, or chats if there is none. Returns the exit code.
  int Talk(GenerateClient& client, v1::GenerateRequest request,
           const std::optional<std::string>& prompt) const;

  std::string server_ = "127.0.0.1:50051";
  std::string model_;  // file or folder to serve from this process; empty: use server_
  std::string disaggregate_;
  std::string kv_cache_dtype_ = "auto";
  std::string quantize_ = "none";
  absl::Duration timeout_ = absl::Hours(24);  // longer than any answer that makes tokens
  TlsFlags tls_;
  std::string api_key_file_;
  std::optional<std::string> first_, second_;  // arguments without a flag
  std::optional<std::string> prompt_;          // nullopt: stdin, or a chat if stdin is a terminal
  std::string system_;
  bool raw_ = false;  // no chat template; literals of special tokens in the prompt are recognised
  SamplingDefaults sampling_defaults_;  // defaults of the servers that serve model_
  v1::SamplingParams sampling_;
  ResponseFormatFlags response_format_;
  int choices_ = 1;
  bool json_ = false;
  v1::Speculative speculative_ = v1::SPECULATIVE_UNSPECIFIED;
  bool stats_ = false;
  std::optional<KvLayout> kv_layout_;  // layout in the workers that serve model_
};

}  // namespace baton
