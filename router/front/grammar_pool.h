// The threads that have grammars compiled, each in a process of its own, and what they compiled
// before.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/time/time.h"

#include "common/grammar/grammar_compiler.h"
#include "common/grammar/grammar_spec.h"
#include "common/net/metrics.h"
#include "router/front/grammar_cache.h"

namespace baton {

// Thread-safe. Requests of one tenant for one grammar wait for one compilation, which is ended when
// the last of them has left or is late. Tenants take turns; a named one has at most half of the
// threads and half of the places to wait, so that its costly grammars do not keep others out. It
// uses std::mutex, which ThreadSanitizer can follow (bounded_queue.h).
class GrammarPool {
 public:
  struct Options {
    std::string program;             // path of baton-grammar-compiler; empty: there is none
    int threads = 2;                 // compilations at once
    size_t places = 256;             // requests that may wait
    size_t cache_bytes = 64u << 20;  // of grammars and errors
    GrammarLimits limits = {.memory_bytes = size_t{512} << 20};  // of one compilation
  };
  struct Ask {
    GrammarSpec spec;  // valid by ValidateGrammarSpec
    std::string tenant;
    absl::Time deadline;              // steady; the request is of no use after it
    std::function<bool()> cancelled;  // any thread; not called any more once `done` is
    // Called once, on any thread, without a lock. Errors are those of GrammarFault, and
    // FAILED_PRECONDITION without a program, RESOURCE_EXHAUSTED with RetryInfo where no place is
    // left, DEADLINE_EXCEEDED and CANCELLED, and UNAVAILABLE once the pool is stopped.
    absl::AnyInvocable<void(GrammarCache::Result)> done;
  };

  // `vocabulary` is what SerializeVocabulary returned, `digest` its tokenizer's. Borrows `metrics`.
  // Logs once if there is no program.
  GrammarPool(const Options& options, absl::string_view vocabulary, std::string digest,
              Metrics& metrics);
  // Stops, and waits until the processes that compile are ended.
  ~GrammarPool();

  // Answers at once where the result is known.
  void Get(Ask ask);
  // Those who wait are told that the router shuts down, and so are those who still ask. What is
  // being compiled is ended.
  void Stop();

 private:
  struct Compilation {
    GrammarSpec spec;
    std::string tenant;
    std::vector<Ask> asks;
  };
  struct Tenant {
    std::deque<std::string> keys;  // of compilations that wait, the oldest first
    int running = 0;
    size_t asks = 0;  // that wait, also for a compilation that runs
  };
  using Compilations = std::map<std::string, Compilation>;
  // Answers to be given without the lock.
  using Answers = std::vector<absl::AnyInvocable<void()>>;

  void Run();
  // The next compilation in the turn of the tenants; end() if none may run now.
  Compilations::iterator Next();
  bool MayRun(const std::string& name, const Tenant& tenant) const;
  // CANCELLED if those who waited have left meanwhile.
  GrammarCache::Result Compile(const Compilation& compilation);
  // Whether anybody waits for it who has time and has not left.
  bool IsWanted(const Compilation& compilation);
  void Finish(Compilations::iterator compilation, const GrammarCache::Result& result,
              Answers& answers);
  // Answers those whom the result does not reach in time, or who no longer want it.
  void DropLate(Answers& answers);
  // Where the request may not wait.
  absl::Status CheckPlace(const std::string& tenant) const;
  void Answer(Ask ask, GrammarCache::Result result, Answers& answers);

  const Options options_;
  const std::string digest_;
  std::unique_ptr<GrammarCompiler> compiler_;  // null: there is no program
  Counter compiled_, refused_, failed_, cancelled_, hits_;
  Histogram seconds_;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool stopping_ = false;
  GrammarCache cache_;
  Compilations compilations_;              // by key: those that wait or run
  std::map<std::string, Tenant> tenants_;  // those that have any
  std::string last_tenant_;                // whose turn was last
  size_t asks_ = 0;                        // of all tenants

  std::vector<std::thread> threads_;
};

}  // namespace baton
