// Prefill and decode workers without an engine, for tests of the router: real servers on loopback,
// whose next token is a hash of prompt, output and seed, and which can be told to be slow, to lie
// and to die.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "baton/internal/v1/common.pb.h"
#include "baton/internal/v1/worker.pb.h"

namespace baton {

// The tokens of the mock engine for a request that has `output` already: ids below `vocab_size`, of
// which `eos_id` ends it unless ignore_eos.
std::vector<internal::v1::OutputToken> MockTokens(const std::vector<uint32_t>& prompt,
                                                  const v1::SamplingParams& sampling,
                                                  uint32_t vocab_size, uint32_t eos_id,
                                                  const std::vector<uint32_t>& output = {});

// Tells decode workers what prefill workers committed, in place of KV transfers. Thread-safe.
class MockHandOff {
 public:
  void Commit(const std::string& decode_address, const internal::v1::AttemptKey& key);
  bool Committed(const std::string& decode_address, const internal::v1::AttemptKey& key) const;

 private:
  mutable absl::Mutex mutex_;
  std::map<std::string, bool> committed_ ABSL_GUARDED_BY(mutex_);
};

struct MockBehaviour {
  absl::Duration before_accept = absl::ZeroDuration();  // decode
  absl::Duration before_first_token =
      absl::ZeroDuration();                              // prefill, or decode with a local prefill
  absl::Duration before_commit = absl::ZeroDuration();   // prefill, after the first token
  absl::Duration between_tokens = absl::ZeroDuration();  // decode
  bool wrong_first_token = false;                        // prefill
  bool skip_a_token = false;                             // decode: output 1 is never sent
  bool stuck = false;   // Watch says that nothing advances; calls do not either
  bool silent = false;  // Watch is open and says nothing more; calls do not advance
};

// Thread-safe. Ends with its destructor, or sooner by Kill.
class MockWorker {
 public:
  struct Options {
    internal::v1::WorkerRole role = internal::v1::WORKER_ROLE_PREFILL;
    std::string name = "mock";
    std::string tokenizer_digest;
    std::string weights_digest = std::string(32, 'w');
    uint32_t vocab_size = 26;
    uint32_t eos_id = 0;
    uint32_t max_model_len = 4096;
    uint16_t port = 0;  // 0: any free one
  };
  // Borrows `hand_off`.
  MockWorker(const Options& options, MockHandOff& hand_off);
  ~MockWorker();

  const std::string& address() const;
  void Behave(const MockBehaviour& behaviour);
  // Ends all connections at once, as the death of the process would.
  void Kill();

  internal::v1::WorkerRole role() const;
  int active_calls() const;  // Prefill and Decode
  int total_calls() const;
  bool saw_pause() const;  // a DecodeFlow arrived

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
