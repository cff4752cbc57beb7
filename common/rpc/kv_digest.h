// What both ends of a push compute from the same facts: page hashes at its opening, digests at
// checkpoints and commit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "baton/internal/v1/common.pb.h"
#include "common/base/hash.h"

namespace baton {

// CRC32C of each page in each layer, as a table of the whole sequence.
class PageCrcTable {
 public:
  PageCrcTable(int layers, int tokens);
  uint32_t& At(int layer, int page) { return crcs_[Index(layer, page)]; }
  uint32_t At(int layer, int page) const { return crcs_[Index(layer, page)]; }
  int layers() const { return layers_; }
  int pages() const { return pages_; }

 private:
  size_t Index(int layer, int page) const {
    return static_cast<size_t>(layer) * static_cast<size_t>(pages_) + static_cast<size_t>(page);
  }
  int layers_;
  int pages_;
  std::vector<uint32_t> crcs_;  // [layers][pages]
};

struct KvDigestInput {
  const internal::v1::ModelIdentity& identity;
  absl::Span<const int32_t> token_ids;                       // of the whole sequence
  int start_token = 0;                                       // what is before was not sent
  int end_token = 0;                                         // after start_token
  absl::Span<const internal::v1::OutputToken> first_tokens;  // empty for a checkpoint
  const PageCrcTable& crcs;
};

// SHA-256 over, in this order: the identity (protocol version, then its four byte fields);
// start_token; the token ids before it; for every page that covers [start_token, end_token), its
// token ids before end_token and its CRCs, layers ascending; end_token; the encoded first_tokens.
// Integers are 32 bits, little-endian; a field of bytes follows its length, first_tokens their
// count.
std::string KvDigest(const KvDigestInput& input);

// The digests of one push: each page is hashed once, so that those of all checkpoints together cost
// no more than the commit's.
class KvDigester {
 public:
  // As KvDigest(input). REQUIRES: no less an end_token than before, and else the same input for all
  // that was hashed before.
  std::string Digest(const KvDigestInput& input);

 private:
  std::optional<Sha256> sha_;  // to the last page that was whole
  int next_page_ = 0;
};

// Two words a page that `token_ids` fill or begin: a 128-bit chain over identity, salt, the
// numerics under which the receiver stores the page, and the tokens up to its end.
std::vector<uint64_t> PageHashes(const internal::v1::ModelIdentity& identity,
                                 const std::string& cache_salt, const std::string& numerics,
                                 absl::Span<const int32_t> token_ids);

}  // namespace baton
