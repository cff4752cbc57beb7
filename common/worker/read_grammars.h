// The grammars that a worker has read, for the next request that brings one of them.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"

#include "common/grammar/compiled_grammar.h"

namespace baton {

// Thread-safe. It owns what it keeps; what it gives away lives on when it keeps it no more. It uses
// std::mutex, which ThreadSanitizer can follow (bounded_queue.h).
class ReadGrammars {
 public:
  struct Limits {
    size_t bytes = size_t{64} << 20;  // memory of what is kept
    size_t count = 256;               // grammars that are kept
  };
  struct Stats {
    uint64_t queries = 0;  // calls of Get
    uint64_t hits = 0;     // those that read nothing themselves
    size_t bytes = 0;      // memory of what is kept
  };
  using Result = absl::StatusOr<CompiledGrammar>;

  explicit ReadGrammars(const Limits& limits) : limits_(limits) {}

  // The grammar of this key: the one that is kept, which then is the one used last, or what `read`
  // returns, which takes the place of those that were used longest ago. An error is not kept.
  // `read` is called on this thread, without a lock. Calls for a key that is being read wait for
  // the thread that reads it, and get what it gets. They need no deadline, for a grammar is bounded
  // (kMaxCompiledGrammarBytes), and they would take as long to read it. REQUIRES: equal keys are of
  // equal grammars; `read` does not call this object.
  Result Get(const std::string& key, absl::FunctionRef<Result()> read);

  Stats stats() const;

 private:
  struct Entry {
    std::string key;
    CompiledGrammar grammar;
    size_t bytes = 0;
  };
  // What a thread reads at this moment.
  struct Reading {
    int waiting = 0;               // threads
    std::optional<Result> result;  // set when it was read
  };
  using Readings = std::map<std::string, Reading>;

  Result WaitFor(Readings::iterator reading, std::unique_lock<std::mutex>& lock);
  void Keep(const std::string& key, const CompiledGrammar& grammar);

  const Limits limits_;
  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable read_;
  Stats stats_;
  std::list<Entry> entries_;  // the most recently used first
  absl::flat_hash_map<std::string, std::list<Entry>::iterator> by_key_;
  Readings readings_;
};

}  // namespace baton
