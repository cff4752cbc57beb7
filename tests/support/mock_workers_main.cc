// mock_workers: many mock workers in one process, for measurements of the router's cost. Prints
// "ready" once the file of their addresses is written, and runs until SIGTERM.
#include <signal.h>

#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <vector>

#include "absl/strings/str_cat.h"

#include "common/flags/flags.h"
#include "common/gguf/gguf_file.h"
#include "common/tokenizer/tokenizer.h"
#include "tests/support/mock_worker.h"

namespace baton {
namespace {

struct Flags {
  std::string model, workers_file;
  int prefill = 1, decode = 1;
  absl::Duration between_tokens = absl::ZeroDuration();
  absl::Duration per_sequence = absl::ZeroDuration();
  absl::Duration per_prompt_token = absl::ZeroDuration();
  int kv_blocks = 0;
};

absl::StatusOr<MockWorker::Options> WorkerOptions(const std::string& model) {
  const absl::StatusOr<GgufFile> file = GgufFile::Open(model, GgufFile::Part::kTokenizer);
  if (!file.ok()) return file.status();
  const auto tokenizer = Tokenizer::Load(*file);
  if (!tokenizer.ok()) return tokenizer.status();
  MockWorker::Options options;
  options.tokenizer_digest = (*tokenizer)->digest();
  if (const auto architecture = file->GetString("general.architecture"); architecture.ok()) {
    options.architecture = std::string(*architecture);
  }
  options.metadata_digest = file->MetadataDigest();
  options.vocab_size = static_cast<uint32_t>((*tokenizer)->vocab_size());
  options.max_model_len = 1 << 20;
  options.watch_interval = absl::Milliseconds(250);
  return options;
}

void Serve(const Flags& flags, MockWorker::Options options) {
  MockHandOff hand_off;
  std::vector<std::unique_ptr<MockWorker>> workers;
  std::ofstream file(flags.workers_file);
  const auto add = [&](internal::v1::WorkerRole role, const char* name, int number) {
    options.role = role;
    options.name = absl::StrCat(name, number);
    workers.push_back(std::make_unique<MockWorker>(options, hand_off));
    workers.back()->Behave({.between_tokens = flags.between_tokens,
                            .per_sequence = flags.per_sequence,
                            .per_prompt_token = flags.per_prompt_token});
    file << name << ' ' << workers.back()->address() << '\n';
  };
  for (int i = 0; i < flags.prefill; ++i) add(internal::v1::WORKER_ROLE_PREFILL, "prefill", i);
  for (int i = 0; i < flags.decode; ++i) add(internal::v1::WORKER_ROLE_DECODE, "decode", i);
  file.close();
  std::cout << "ready" << std::endl;
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  int number = 0;
  sigwait(&signals, &number);
}

int Main(int argc, char** argv) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);  // threads that start later inherit the mask
  Flags flags;
  FlagSet flag_set("mock_workers", "Workers without an engine.");
  flag_set.AddString("model", flags.model, "GGUF file that they claim to serve");
  flag_set.AddString("workers-file", flags.workers_file, "to write, for the router");
  flag_set.AddInt("prefill", flags.prefill, 0, 10000, "how many prefill workers");
  flag_set.AddInt("decode", flags.decode, 0, 10000, "how many decode workers");
  flag_set.AddDuration("between-tokens", flags.between_tokens, absl::ZeroDuration(), absl::Hours(1),
                       "of a stream; 0: as fast as it is taken");
  flag_set.AddDuration("per-sequence", flags.per_sequence, absl::ZeroDuration(), absl::Hours(1),
                       "that is added to --between-tokens for each stream of a worker");
  flag_set.AddInt("kv-blocks", flags.kv_blocks, 0, 1 << 28,
                  "of 32 tokens that a worker has and tells of; 0: as many as ever are needed");
  flag_set.AddDuration("per-prompt-token", flags.per_prompt_token, absl::ZeroDuration(),
                       absl::Hours(1), "that a worker takes, one prompt after the other");
  flag_set.ParseOrExit(argc, argv);
  const absl::StatusOr<MockWorker::Options> options = WorkerOptions(flags.model);
  if (!options.ok()) return ExitUsage("mock_workers", options.status());
  MockWorker::Options with_blocks = *options;
  with_blocks.kv_blocks = static_cast<uint32_t>(flags.kv_blocks);
  Serve(flags, with_blocks);
  return 0;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) { return baton::Main(argc, argv); }
