// The hashes that both ends of a push compute and compare: page hashes when it is opened, digests
// at its checkpoints and its commit.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "baton/internal/v1/common.pb.h"
#include "common/base/hash.h"

namespace baton {

// The CRC32C of each page of a sequence in each layer.
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
  absl::Span<const int32_t> token_ids;                       // the whole sequence
  int start_token = 0;                                       // first token that was sent
  int end_token = 0;                                         // end of the digest; after start_token
  absl::Span<const internal::v1::OutputToken> first_tokens;  // empty for a checkpoint
  const PageCrcTable& crcs;
  // [layers]: the first token that each layer carries if the receiver holds nothing
  // (CarriedTokens); empty: 0 for every layer.
  absl::Span<const int> layer_begins = {};
};

// SHA-256 over, in this order:
//   1. the identity: protocol version, then its four byte fields
//   2. start_token, and the token ids before it; the count of layers, and each one's layer_begins
//   3. for each page of [start_token, end_token): its token ids before end_token, and its CRCs in
//      the layers that carry it, which are those whose layer_begins is not behind it; ascending
//   4. end_token
//   5. the count of first_tokens, and for each of them
//      - output_index, token.token_id, token.token
//      - 0, or 1 and token.logprob if that is set
//      - the count of token.top_logprobs, and for each of them token_id, token, logprob
//      - ends_sequence (0 or 1), finish_reason, choice
// Integers have 32 bits, little-endian, and floats stand as their bits. Before a field of bytes
// stands its length. A new format needs a new kProtocolVersion (limits.h): a worker refuses the
// digest of a peer that hashes anything else.
std::string KvDigest(const KvDigestInput& input);

// Computes the digests of one push. It hashes each whole page once, so that the digests of all
// checkpoints together cost no more than the commit's. Not thread-safe.
class KvDigester {
 public:
  // Returns KvDigest(input). REQUIRES: end_token is no less than in the last call, and everything
  // that was hashed before is unchanged in `input`.
  std::string Digest(const KvDigestInput& input);

 private:
  std::optional<Sha256> sha_;  // the hash up to the end of the last whole page
  int next_page_ = 0;          // the next page to hash
};

// Two words for each page that `token_ids` fill or begin: a 128-bit chain over identity, salt, the
// numerics under which the receiver stores the page, and the tokens up to its end.
std::vector<uint64_t> PageHashes(const internal::v1::ModelIdentity& identity,
                                 const std::string& cache_salt, const std::string& numerics,
                                 absl::Span<const int32_t> token_ids);

}  // namespace baton
