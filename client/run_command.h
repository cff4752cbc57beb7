// `baton run`: one streamed answer, or an interactive chat.
#pragma once

#include <optional>
#include <string>

#include "absl/time/time.h"

#include "baton/v1/generation.pb.h"
#include "client/command.h"
#include "common/rpc/credentials.h"

namespace baton {

struct RunOptions {
  std::string server = "127.0.0.1:50051";  // where `model` is empty
  std::string model;                       // GGUF file for a local cluster
  TlsFlags tls;
  std::string binaries;  // folder of the other programs
  std::string disaggregate;

  std::optional<std::string> prompt;  // none: stdin when piped, else a chat
  std::string system;
  bool raw = false;  // the prompt as it is, special tokens recognised; no chat template
  v1::SamplingParams sampling;
  bool json = false;
  bool stats = false;
  absl::Duration timeout = absl::Minutes(10);
};

// The exit code: 0, 1 when the request failed, 2 for wrong input or a model
// that does not load, 130 when Ctrl-C ended it.
class RunCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  RunOptions options_;
};

}  // namespace baton
