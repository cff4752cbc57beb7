#include "common/worker/read_grammars.h"

#include <utility>

#include "common/base/check.h"

namespace baton {
namespace {

constexpr size_t kEntryBytes = 256;  // estimated bytes of an entry besides its key and its grammar

}  // namespace

ReadGrammars::Result ReadGrammars::Get(const std::string& key, absl::FunctionRef<Result()> read) {
  std::unique_lock lock(mutex_);
  ++stats_.queries;
  if (const auto kept = by_key_.find(key); kept != by_key_.end()) {
    ++stats_.hits;
    entries_.splice(entries_.begin(), entries_, kept->second);
    return kept->second->grammar;
  }
  const auto [reading, is_first] = readings_.try_emplace(key);
  // tests/planted_bugs: read_grammars_each_for_itself
  if (!is_first) {
    ++stats_.hits;
    return WaitFor(reading, lock);
  }
  lock.unlock();
  Result result = read();
  lock.lock();
  if (result.ok()) Keep(key, *result);
  if (reading->second.waiting == 0) {
    readings_.erase(reading);
  } else {
    reading->second.result.emplace(result);
    read_.notify_all();
  }
  return result;
}

// The last one who waits removes what was read.
ReadGrammars::Result ReadGrammars::WaitFor(Readings::iterator reading,
                                           std::unique_lock<std::mutex>& lock) {
  ++reading->second.waiting;
  read_.wait(lock, [&] { return reading->second.result.has_value(); });
  Result result = *reading->second.result;
  if (--reading->second.waiting == 0) readings_.erase(reading);
  return result;
}

void ReadGrammars::Keep(const std::string& key, const CompiledGrammar& grammar) {
  BATON_CHECK(!by_key_.contains(key), "one thread at a time reads a grammar");
  const size_t bytes = kEntryBytes + key.size() + grammar.memory_bytes();
  entries_.push_front({.key = key, .grammar = grammar, .bytes = bytes});
  by_key_[key] = entries_.begin();
  stats_.bytes += bytes;
  // tests/planted_bugs: read_grammars_not_bounded
  while (stats_.bytes > limits_.bytes || entries_.size() > limits_.count) {
    stats_.bytes -= entries_.back().bytes;
    by_key_.erase(entries_.back().key);
    entries_.pop_back();
  }
}

ReadGrammars::Stats ReadGrammars::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}

}  // namespace baton
