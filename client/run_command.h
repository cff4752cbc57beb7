// `baton run`: one streamed answer, or an interactive chat.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "client/command.h"
#include "common/rpc/credentials.h"

namespace baton {

struct RunOptions {
  std::string
      server;  // host:port; empty: the default address, or a cluster of its own when `model` is set
  std::string model;  // GGUF file for a local cluster
  TlsFlags tls;
  std::string binaries;  // folder of the other programs
  std::string disaggregate;

  std::optional<std::string> prompt;  // none: stdin when piped, else a chat
  std::string system;
  bool raw = false;  // the prompt as it is, special tokens recognised; no chat template
  std::optional<uint32_t> max_tokens;
  std::optional<float> temperature;
  std::optional<float> top_p;
  std::optional<int> top_k;
  std::optional<float> min_p;
  std::optional<uint64_t> seed;
  std::vector<std::string> stop;
  bool json = false;
  bool stats = false;
  absl::Duration timeout = absl::Minutes(10);
};

// The exit code: 0, 1 when the request failed, 2 for wrong input or a model that does not load, 130
// when Ctrl-C ended it.
class RunCommand : public Command {
 public:
  void AddFlags(CLI::App& app, FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  RunOptions options_;
};

}  // namespace baton
