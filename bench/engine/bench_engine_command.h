// `baton bench engine` measures prefill and decode on this machine, without servers, and compares
// them with what the machine could do.
#pragma once

#include <string>
#include <vector>

#include "common/backend/make_backend.h"
#include "common/engine/engine.h"
#include "common/flags/command.h"

namespace baton {

struct BenchEngineOptions {
  std::string model;                    // path of a GGUF file; empty: `shape` is set
  std::string shape;                    // name of a model shape, computed with random weights
  std::string weights = "q4_1";         // type of the random weights
  std::string write_gguf;               // path to write the random model to, in place of measuring
  std::vector<int> prompts = {512};     // tokens to prefill in each test; 0: no prefill
  std::vector<int> generations = {64};  // steps to decode in each test; 0: no decode
  std::vector<int> depths = {0};        // tokens in the KV cache before a test
  std::vector<int> batches = {1};       // sequences that decode together
  int repetitions = 5;                  // repetitions that count; one before them warms up
  bool json = false;

  // Both have the flags of a worker.
  BackendOptions backend;
  EngineOptions engine;  // only block_size, kv_dtype and max_num_batched_tokens are used
};

// Prints a table, or JSON, on stdout. The exit code: 0, or 2 with one line on stderr.
class BenchEngineCommand : public Command {
 public:
  void AddFlags(FlagSet& flags) override;
  int Run(const FlagSet& flags) override;

 private:
  BenchEngineOptions options_;
};

}  // namespace baton
