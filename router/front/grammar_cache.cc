#include "router/front/grammar_cache.h"

#include "common/base/check.h"
#include "common/base/hash.h"
#include "common/grammar/string_list.h"

namespace baton {
namespace {

constexpr size_t kEntryBytes = 256;  // estimated bytes of an entry besides its texts

}  // namespace

std::string GrammarKey(absl::string_view tenant, const GrammarSpec& spec,
                       absl::string_view vocabulary_digest) {
  std::string parts;
  // tests/planted_bugs: grammars_shared_by_tenants
  AppendString(tenant, parts);
  AppendString(vocabulary_digest, parts);
  AppendString(SerializeGrammarSpec(spec), parts);
  Sha256 hash;
  hash.Update(parts);
  return hash.Finish();
}

size_t GrammarCache::Bytes(const Entry& entry) {
  const auto& [key, result] = entry;
  return kEntryBytes + key.size() +
         (result.ok() ? (*result)->size() : result.status().message().size());
}

std::optional<GrammarCache::Result> GrammarCache::Find(const std::string& key) {
  const auto found = by_key_.find(key);
  if (found == by_key_.end()) return std::nullopt;
  entries_.splice(entries_.begin(), entries_, found->second);
  return found->second->second;
}

void GrammarCache::Insert(const std::string& key, Result result) {
  Entry entry(key, std::move(result));
  if (Bytes(entry) > max_bytes_) return;
  BATON_CHECK(!by_key_.contains(key), "a result is kept once");
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
