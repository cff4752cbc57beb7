// The names of prefixes: a chain of hashes over identity, salt and tokens, a link for each page. A
// worker's prefix cache finds KV by them and announces what it holds; the router makes the same
// ones from a prompt. A link's first word, `high`, is what is announced.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "common/base/hash.h"

namespace baton {

// Tokens that a link stands for.
inline constexpr size_t kPrefixPageTokens = 16;

using PrefixHashFunction = Hash128 (*)(const Hash128& parent, absl::string_view bytes);

// What bits of KV depend on beside salt and tokens. `config_digest` is of the architecture;
// `numerics` says the KV type too.
std::string PrefixIdentity(const std::string& weights_digest, const std::string& config_digest,
                           const std::string& numerics);

// The link behind which every sequence of `identity` begins.
Hash128 PrefixRoot(const std::string& identity, PrefixHashFunction hash = ChainHash);

// The link of a page behind `parent`. `salt` is the request's where the page begins a sequence, and
// empty everywhere else.
Hash128 PrefixLink(const Hash128& parent, absl::Span<const int32_t> page, const std::string& salt,
                   PrefixHashFunction hash = ChainHash);

}  // namespace baton
