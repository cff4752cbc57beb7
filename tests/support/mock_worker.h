// Prefill and decode workers without an engine: real servers on loopback that can be told to be
// slow, to lie and to die. For tests of the router and for measurements of its cost.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "baton/internal/v1/common.pb.h"
#include "baton/internal/v1/worker.pb.h"
#include "router/calls/thread_loop.h"
#include "tests/support/mock_sequence.h"

namespace baton {

// What mock workers share: one thread on which all their calls run, and in place of KV transfers
// the news of which hand-offs are committed. REQUIRES: it outlives the workers.
class MockHandOff {
 public:
  ThreadLoop& loop() { return loop_; }

  // The functions below belong to the loop's thread. Expect calls `committed` once the hand-off is
  // committed, at once if it is so already.
  void Commit(const std::string& decode_address, const internal::v1::AttemptKey& key);
  void Expect(const std::string& decode_address, const internal::v1::AttemptKey& key,
              EventLoop::Task committed);
  // Forgets the hand-off: the call of the decode worker is gone.
  void Forget(const std::string& decode_address, const internal::v1::AttemptKey& key);

 private:
  struct Entry {
    bool committed = false;
    EventLoop::Task expected;
  };
  std::map<std::string, Entry> entries_;  // the loop's thread only
  ThreadLoop loop_;
};

// What a worker does otherwise than a perfect one.
struct MockBehaviour {
  // Decode calls: time before the attempt is accepted.
  absl::Duration before_accept = absl::ZeroDuration();
  // Prefill calls, and decode calls with a local prefill: time before the first token.
  absl::Duration before_first_token = absl::ZeroDuration();
  // Prefill calls: time from the first token to the commit.
  absl::Duration before_commit = absl::ZeroDuration();
  // Decode calls: time between two tokens. All sequences step at the same times, and tokens that
  // come while a message is being written go into one message, as a worker's do. Zero: the next
  // token comes when the one before is written.
  absl::Duration between_tokens = absl::ZeroDuration();
  // Decode calls: what a step takes longer for each choice that steps; between_tokens is above
  // zero.
  absl::Duration per_sequence = absl::ZeroDuration();
  // The worker's time for one token of a prompt. It computes one prompt after the other.
  absl::Duration per_prompt_token = absl::ZeroDuration();
  bool fails = false;    // calls begin and then end with UNAVAILABLE
  bool forgets = false;  // calls begin, and then nothing follows
  // Time between two signs of life in a call that has begun. Infinite: none are sent.
  absl::Duration between_signs = absl::InfiniteDuration();
  bool wrong_first_token = false;  // prefill calls: the first token is wrong
  bool skip_a_token = false;       // decode calls: output 1 is never sent
  bool never_pauses = false;       // decode calls: tokens follow although the router paused them
  bool stuck = false;              // Watch says that nothing advances, and calls do not advance
  bool silent = false;             // Watch stays open without messages, and calls do not advance
  std::vector<std::string> quarantines = {};  // pushers that Watch tells to be quarantined
  std::string wire_dtype = "";                // prefill calls: what their account tells of it
};

// A mock worker. Thread-safe. Its server ends with its destructor, or sooner by Kill.
class MockWorker {
 public:
  struct Options {
    internal::v1::WorkerRole role = internal::v1::WORKER_ROLE_PREFILL;
    std::string name = "mock";
    std::string tokenizer_digest{};
    std::string weights_digest = std::string(32, 'w');
    std::string architecture = "llama";
    std::string metadata_digest{};
    std::string sample_digest{};
    std::string weights_type = "";
    uint32_t vocab_size = 26;
    uint32_t eos_id = 0;
    uint32_t max_model_len = 4096;
    // Its KV cache, of which Watch tells what decode calls take; 0: as many as the longest sequence
    // needs, and Watch says that 1000 are free.
    uint32_t kv_blocks = 0;
    uint16_t port = 0;  // 0: any free one
    absl::Duration watch_interval = absl::Milliseconds(100);
  };
  // Borrows `hand_off`.
  MockWorker(const Options& options, MockHandOff& hand_off);
  ~MockWorker();

  const std::string& address() const;
  // Sets the behaviour of Watch and of later calls. Open calls obey only its `stuck` and `silent`.
  void Behave(const MockBehaviour& behaviour);
  // Ends all connections at once, as the death of the process would.
  void Kill();

  internal::v1::WorkerRole role() const;
  int active_calls() const;  // Prefill and Decode calls that are open
  int total_calls() const;
  bool saw_pause() const;  // whether a DecodeFlow has arrived
  // The traceparent of the last Prefill or Decode call; empty: it had none, or there was no call.
  std::string trace_parent() const;

 private:
  struct Rep;
  std::unique_ptr<Rep> rep_;
};

}  // namespace baton
