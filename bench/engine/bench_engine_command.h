// `baton bench engine`: the speed of prefill and decode on this machine, without servers, beside
// what the machine could do.
#pragma once

#include <string>
#include <vector>

#include "common/backend/make_backend.h"
#include "common/engine/engine.h"
#include "common/flags/command.h"

namespace baton {

struct BenchEngineOptions {
  std::string model;                    // GGUF file; or
  std::string shape;                    // name of a shape: random weights
  std::string weights = "q4_1";         // their type
  std::string write_gguf;               // with `shape`: write the file there, measure nothing
  std::vector<int> prompts = {512};     // tokens to prefill; 0: no such test
  std::vector<int> generations = {64};  // steps to decode; 0: no such test
  std::vector<int> depths = {0};        // tokens in the cache before
  std::vector<int> batches = {1};       // sequences that decode together
  int repetitions = 5;                  // after one that does not count
  bool json = false;

  BackendOptions backend;
  EngineOptions engine;  // block_size, kv_dtype and max_num_batched_tokens
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
