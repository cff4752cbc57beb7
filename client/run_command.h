// `baton run`: one streamed answer, or an interactive chat.
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
#include "client/local_cluster.h"
#include "common/flags/command.h"
#include "common/net/server_flags.h"

namespace baton {

// The exit code: 0, 1 when the request failed, 2 for wrong input or a model that does not load, 130
// when Ctrl-C ended it, and those of WriteOutput.
class RunCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  // What flags say together, before anything is read.
  absl::Status Check(const FlagSet& flags) const;
  // What every request has but its prompt or messages.
  absl::StatusOr<v1::GenerateRequest> MakeRequest(const FlagSet& flags) const;
  // Serves the model and waits until it answers.
  absl::StatusOr<std::unique_ptr<LocalCluster>> StartCluster(
      const std::atomic<bool>& interrupted) const;
  // Asks, shows the answer or why there is none, and returns it.
  Answer Ask(GenerateClient& client, v1::GenerateRequest request) const;
  // Asks the prompt, or chats where there is none. The exit code.
  int Talk(GenerateClient& client, v1::GenerateRequest request,
           const std::optional<std::string>& prompt) const;

  std::string server_ = "127.0.0.1:50051";
  std::string model_;  // GGUF file to serve from here, instead of a server
  std::string disaggregate_;
  absl::Duration timeout_ = absl::Minutes(10);
  TlsFlags tls_;
  std::optional<std::string> prompt_;  // none: stdin when piped, else a chat
  std::string system_;
  bool raw_ = false;  // the prompt as it is, special tokens recognised; no chat template
  v1::SamplingParams sampling_;
  int choices_ = 1;
  bool json_ = false;
  bool stats_ = false;
};

}  // namespace baton
