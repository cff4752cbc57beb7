// Makes masks of forms that take too long for the engine's thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "common/grammar/grammar_state.h"

namespace baton {

// The mask of one sequence's next output. The engine's thread reads it once `done` is true.
struct MaskJob {
  GrammarState state;            // stalled, or behind some of the outputs; then behind all of them
  std::vector<int32_t> outputs;  // all of the sequence
  std::vector<uint32_t> mask = {};  // [MaskWords(vocab_size)]
  absl::Status why = {};            // why it allows nothing
  std::atomic<bool> done = false;
  std::atomic<bool> unwanted = false;

  MaskJob(GrammarState of, std::vector<int32_t> all)
      : state(std::move(of)), outputs(std::move(all)) {}
};

// One thread, of low priority, so that the steps have their CPUs. Of the jobs that wait it takes the
// one whose form has spent least. So a form is not kept waiting by costlier ones, but for a job of
// theirs that runs, which has at most GrammarBudget::call.
//
// Bound: who asks has one job for each sequence.
//
// Thread rule: one thread asks, and destroys; `on_done` is called on the mask thread.
class MaskThread {
 public:
  // `on_done`: a job is done.
  explicit MaskThread(std::function<void()> on_done) : on_done_(std::move(on_done)) {}
  // Breaks off the job that runs.
  ~MaskThread();

  // A job is broken off, or not begun, when the last copy of what is returned is gone. REQUIRES: the
  // state has accepted no token but the first of `outputs`.
  std::shared_ptr<MaskJob> Ask(GrammarState state, std::vector<int32_t> outputs);

 private:
  void Run();

  const std::function<void()> on_done_;
  std::mutex mutex_;  // guards the members below but thread_
  std::condition_variable changed_;
  std::multimap<absl::Duration, std::shared_ptr<MaskJob>>
      waiting_;  // by what their forms have spent
  std::shared_ptr<MaskJob> running_;
  bool stopping_ = false;
  std::thread thread_;  // begun by the first job
};

}  // namespace baton
