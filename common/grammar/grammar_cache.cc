#include "common/grammar/grammar_cache.h"

#include "common/base/hash.h"
#include "common/grammar/string_list.h"

namespace baton {

std::string GrammarKey(const GrammarSpec& spec, absl::string_view vocabulary_digest) {
  std::string parts;
  AppendString(vocabulary_digest, parts);
  AppendString(SerializeGrammarSpec(spec), parts);
  Sha256 hash;
  hash.Update(parts);
  return hash.Finish();
}

std::optional<std::string> GrammarCache::Find(const std::string& key) {
  const absl::MutexLock lock(&mutex_);
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

void GrammarCache::Insert(const std::string& key, std::string grammar) {
  Entry entry(key, std::move(grammar));
  if (Bytes(entry) > max_bytes_) return;
  const absl::MutexLock lock(&mutex_);
  if (by_key_.contains(key)) return;  // two asked for it at once, and equal specs compile alike
  bytes_ += Bytes(entry);
  entries_.push_front(std::move(entry));
  by_key_[key] = entries_.begin();
  while (bytes_ > max_bytes_) {
    bytes_ -= Bytes(entries_.back());
    by_key_.erase(entries_.back().first);
    entries_.pop_back();
  }
}

}  // namespace baton
