// Remembers the results of grammar compilations.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "common/grammar/grammar_spec.h"

namespace baton {

// The input of CompiledGrammar::Parse, shared by the requests that use the grammar.
using SharedGrammar = std::shared_ptr<const std::string>;

// Returns the key of a tenant's grammar: a SHA-256 of the tenant, the spec and the vocabulary's
// digest. Each tenant has its own entries, so that no tenant can infer from the time what another
// asked for.
std::string GrammarKey(absl::string_view tenant, const GrammarSpec& spec,
                       absl::string_view vocabulary_digest);

// Not thread-safe. Which grammars it keeps depends on the order of its calls alone.
class GrammarCache {
 public:
  using Result = absl::StatusOr<SharedGrammar>;  // an error says why there is no grammar

  // Keeps at most `max_bytes` of keys, grammars and errors.
  explicit GrammarCache(size_t max_bytes) : max_bytes_(max_bytes) {}

  // The result, which then is the one used last; nullopt if it is not kept.
  std::optional<Result> Find(const std::string& key);
  // Keeps the result, in place of those that were used longest ago. One that is larger than the
  // whole cache is not kept. REQUIRES: the key is not kept.
  void Insert(const std::string& key, Result result);

 private:
  using Entry = std::pair<std::string, Result>;  // key, result
  static size_t Bytes(const Entry& entry);

  const size_t max_bytes_;
  size_t bytes_ = 0;
  std::list<Entry> entries_;  // the most recently used first
  absl::flat_hash_map<std::string, std::list<Entry>::iterator> by_key_;
};

}  // namespace baton
