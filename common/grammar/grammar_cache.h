// Compiled grammars that were asked for before.
#pragma once

#include <cstddef>
#include <list>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"

#include "common/grammar/grammar_spec.h"

namespace baton {

// What identifies a compiled grammar: a SHA-256 of the spec and of the vocabulary's digest.
std::string GrammarKey(const GrammarSpec& spec, absl::string_view vocabulary_digest);

// Thread-safe. Which grammars it keeps depends on the order of its calls alone.
class GrammarCache {
 public:
  // Keeps at most `max_bytes` of keys and grammars.
  explicit GrammarCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // A copy of the grammar, which then is the one used last; nullopt if it is not kept.
  std::optional<std::string> Find(const std::string& key);
  // Keeps the grammar, in place of those that were used longest ago. One that is larger than the
  // whole cache is not kept.
  void Insert(const std::string& key, std::string grammar);

 private:
  using Entry = std::pair<std::string, std::string>;  // key, grammar
  static size_t Bytes(const Entry& entry) { return entry.first.size() + entry.second.size(); }

  const size_t max_bytes_;
  absl::Mutex mutex_;
  size_t bytes_ ABSL_GUARDED_BY(mutex_) = 0;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // that used last comes first
  absl::flat_hash_map<std::string, std::list<Entry>::iterator> by_key_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
