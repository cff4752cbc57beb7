// Prefill and decode workers without an engine, for tests of the router and for what the router
// costs: real servers on loopback, which can be told to be slow, to lie and to die.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "absl/time/time.h"

#include "baton/internal/v1/common.pb.h"
#include "baton/internal/v1/worker.pb.h"
#include "router/calls/event_loop.h"
#include "tests/support/mock_sequence.h"

namespace baton {

// What mock workers share: one thread, on which all of their calls live, and the news of what
// prefill workers committed, in place of KV transfers. Outlives them.
class MockHandOff {
 public:
  EventLoop& loop() { return loop_; }

  // On the loop's thread: `committed` is called once the hand-off is, at once where it was before.
  void Commit(const std::string& decode_address, const internal::v1::AttemptKey& key);
  void Expect(const std::string& decode_address, const internal::v1::AttemptKey& key,
              EventLoop::Task committed);
  // The decode worker's call is gone.
  void Forget(const std::string& decode_address, const internal::v1::AttemptKey& key);

 private:
  struct Entry {
    bool committed = false;
    EventLoop::Task expected;
  };
  std::map<std::string, Entry> entries_;  // the loop's thread only
  EventLoop loop_;
};

struct MockBehaviour {
  absl::Duration before_accept = absl::ZeroDuration();  // decode
  absl::Duration before_first_token =
      absl::ZeroDuration();                             // prefill, or decode with a local prefill
  absl::Duration before_commit = absl::ZeroDuration();  // prefill, after the first token
  // Decode. Zero: the next one when the one before is written. Otherwise tokens that come while
  // one is being written go together, as a worker's do, and all sequences step at the same times.
  absl::Duration between_tokens = absl::ZeroDuration();
  // Time of the worker that a token of a prompt takes, one prompt after the other.
  absl::Duration per_prompt_token = absl::ZeroDuration();
  bool fails = false;              // calls begin and end UNAVAILABLE
  bool wrong_first_token = false;  // prefill
  bool skip_a_token = false;       // decode: output 1 is never sent
  bool never_pauses = false;       // decode: it sends on though it was told to pause
  bool stuck = false;              // Watch says that nothing advances; calls do not either
  bool silent = false;             // Watch is open and says nothing more; calls do not advance
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
    absl::Duration watch_interval = absl::Milliseconds(100);
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
