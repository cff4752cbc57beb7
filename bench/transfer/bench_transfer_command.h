// `baton bench transfer` measures how fast a KV cache moves between two processes on this machine,
// and compares that with a bare socket.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "common/flags/command.h"

namespace baton {

struct BenchTransferOptions {
  std::string shape = "llama-3.1-8b";    // model shape with the layers, KV heads and head dimension
  uint64_t bytes = uint64_t{512} << 20;  // size of the KV cache, about
  std::string device = "cpu";            // cpu, cuda or cuda:N: memory of both KV caches of a push
  std::string kv_wire_dtype = "auto";    // type of a push's payload; auto: that of the caches
  int copy_threads = 0;                  // value of a worker's --kv-copy-threads on both sides
  // The sweep tries each of these sizes: a push's messages aim at it, a socket's calls have it.
  std::vector<int> message_bytes = {64 << 10, 256 << 10, 1 << 20, 2 << 20, 4 << 20};
  std::vector<int> connections = {1, 2, 4};  // connections that the sweep tries with every size
  int rounds = 5;                            // rounds over all participants; medians count
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
