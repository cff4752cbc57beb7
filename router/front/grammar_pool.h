// Compiles grammars on several threads, each in a separate process, and caches the results.
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

// Thread-safe. All requests of a tenant for the same grammar wait for one compilation, which is
// cancelled when the last of them has left or passed its deadline. Tenants take turns. A named
// tenant gets at most half of the threads and half of the waiting places, so that its costly
// grammars do not keep others out. Uses std::mutex, which ThreadSanitizer can follow
// (bounded_queue.h).
class GrammarPool {
 public:
  struct Options {
    std::string program;             // path of baton-grammar-compiler; empty: there is none
    int threads = 2;                 // compilations at once
    size_t places = 256;             // requests that may wait
    size_t cache_bytes = 64u << 20;  // bytes of cached grammars and errors
    GrammarLimits limits = {.memory_bytes = size_t{512} << 20};  // limits of one compilation
  };
  struct Ask {
    GrammarSpec spec;  // valid by ValidateGrammarSpec
    std::string tenant;
    absl::Time deadline;              // steady; the request is of no use after it
    std::function<bool()> cancelled;  // any thread; not called any more once `done` is
    // Called once, on any thread, without a lock. Errors: those of GrammarFault;
    // FAILED_PRECONDITION without a program; RESOURCE_EXHAUSTED with RetryInfo if no place is left;
    // DEADLINE_EXCEEDED; CANCELLED; UNAVAILABLE once the pool is stopped.
    absl::AnyInvocable<void(GrammarCache::Result)> done;
  };

  // `vocabulary` is what SerializeVocabulary returned, `digest` its tokenizer's. Borrows `metrics`.
  // Logs once if there is no program.
  GrammarPool(const Options& options, absl::string_view vocabulary, std::string digest,
              Metrics& metrics);
  // Stops, and waits until the processes that compile are ended.
  ~GrammarPool();

  // Answers at once if the result is cached, otherwise after its compilation.
  void Get(Ask ask);
  // Ends all compilations. Waiting and later requests receive UNAVAILABLE: the router shuts down.
  void Stop();

 private:
  struct Compilation {
    GrammarSpec spec;
    std::string tenant;
    std::vector<Ask> asks;
  };
  struct Tenant {
    std::deque<std::string> keys;  // keys of waiting compilations, the oldest first
    int running = 0;
    size_t asks = 0;  // requests that wait for waiting or running compilations
  };
  using Compilations = std::map<std::string, Compilation>;
  // Answers to be given without the lock.
  using Answers = std::vector<absl::AnyInvocable<void()>>;

  void Run();
  // The next compilation in the turn of the tenants; end() if none may run now.
  Compilations::iterator Next();
  bool MayRun(const std::string& name, const Tenant& tenant) const;
  // CANCELLED if all waiting requests have left meanwhile.
  GrammarCache::Result Compile(const Compilation& compilation);
  // Whether a request still waits for it that has not left and is before its deadline.
  bool IsWanted(const Compilation& compilation);
  void Finish(Compilations::iterator compilation, const GrammarCache::Result& result,
              Answers& answers);
  // Answers the requests that are past their deadline or cancelled.
  void DropLate(Answers& answers);
  // RESOURCE_EXHAUSTED if the tenant's request may not wait.
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
  Compilations compilations_;              // waiting and running compilations by key
  std::map<std::string, Tenant> tenants_;  // tenants that have a compilation
  std::string last_tenant_;                // the tenant whose turn was last
  size_t asks_ = 0;                        // waiting requests of all tenants

  std::vector<std::thread> threads_;
};

}  // namespace baton
