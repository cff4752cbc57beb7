// `baton bench transfer`: how fast a KV cache moves between two processes on this machine, beside
// what a bare socket does.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/flags/command.h"

namespace baton {

struct BenchTransferOptions {
  std::string shape = "llama-3.1-8b";  // whose layers, KV heads and head dimension
  uint64_t bytes = uint64_t{512} << 20;
  std::string device = "cpu";  // cpu, cuda, cuda:N: in whose memory both caches of a push are
  // Of the sweep: aimed at by messages of the push, given to each call of the socket.
  std::vector<int> message_bytes = {64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20};
  std::vector<int> connections = {1, 2, 4};  // of the sweep, each with every size of messages
  int rounds = 5;                            // of all participants in turn; medians count
  bool json = false;
  std::string unchecked_program;  // path of baton-bench-unchecked; empty: it was not built
};

// Prints a table, or JSON, on stdout. The exit code: 0, or 2 with one line on stderr.
class BenchTransferCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  BenchTransferOptions options_;
};

}  // namespace baton
