// Makes the names of prefixes: a chain of hashes over identity, salt and tokens, with a link for
// each page. A worker's prefix cache finds KV by these links, and announces the pages that it holds
// by the first word, `high`, of their links. The router makes the same links from a prompt.
//
// A worker may hold a page in the layers of one attention window and not in those of another. So a
// page has a name for each kind of layer: its link's first word for the layers that keep the most
// tokens, and a word made of it for those of each smaller window.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/base/hash.h"
#include "common/base/kv_type.h"

namespace baton {

// Tokens of a page.
inline constexpr size_t kPrefixPageTokens = kKvPageTokens;

using PrefixHashFunction = Hash128 (*)(const Hash128& parent, absl::string_view bytes);

// A text for everything but salt and tokens that the bits of KV depend on. `config_digest` is
// ModelConfig::Digest; `numerics` names the KV type too.
std::string PrefixIdentity(const std::string& weights_digest, const std::string& config_digest,
                           const std::string& numerics);

// The first link of every chain of `identity`, before any page.
Hash128 PrefixRoot(const std::string& identity, PrefixHashFunction hash = ChainHash);

// The link of a page; `parent` is the link before it. `salt` is the request's salt for the first
// page of a sequence, and empty for every other page.
Hash128 PrefixLink(const Hash128& parent, absl::Span<const int32_t> page, const std::string& salt,
                   PrefixHashFunction hash = ChainHash);

// The name of page `page` (its link's first word) in the layers whose window is `window` keys, where
// others keep more. REQUIRES: window > 0.
uint64_t PrefixWindowPage(uint64_t page, int window);

}  // namespace baton
