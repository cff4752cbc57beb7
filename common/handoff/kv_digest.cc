#include "common/handoff/kv_digest.h"

#include <algorithm>
#include <bit>

#include "common/base/check.h"
#include "common/kv/layout.h"

namespace baton {
namespace {

using internal::v1::ModelIdentity;
using internal::v1::OutputToken;

void UpdateBytes(Sha256& sha, const std::string& bytes) {
  sha.UpdateInteger(static_cast<uint32_t>(bytes.size()));
  sha.Update(bytes);
}

void UpdateIdentity(Sha256& sha, const ModelIdentity& identity) {
  sha.UpdateInteger(identity.protocol_version());
  UpdateBytes(sha, identity.weights_digest());
  UpdateBytes(sha, identity.architecture());
  UpdateBytes(sha, identity.config_digest());
  UpdateBytes(sha, identity.tokenizer_digest());
}

void UpdateFloat(Sha256& sha, float value) { sha.UpdateInteger(std::bit_cast<uint32_t>(value)); }

// Hashes every field, so that the digest does not depend on how protobuf encodes them.
void UpdateToken(Sha256& sha, const OutputToken& output) {
  const v1::TokenLogprob& token = output.token();
  sha.UpdateInteger(output.output_index());
  sha.UpdateInteger(token.token_id());
  UpdateBytes(sha, token.token());
  sha.UpdateInteger(uint32_t{token.has_logprob()});
  if (token.has_logprob()) UpdateFloat(sha, token.logprob());
  sha.UpdateInteger(static_cast<uint32_t>(token.top_logprobs_size()));
  for (const v1::TopLogprob& top : token.top_logprobs()) {
    sha.UpdateInteger(top.token_id());
    UpdateBytes(sha, top.token());
    UpdateFloat(sha, top.logprob());
  }
  sha.UpdateInteger(uint32_t{output.ends_sequence()});
  sha.UpdateInteger(static_cast<uint32_t>(output.finish_reason()));
  sha.UpdateInteger(output.choice());
}

// Collects integers and hashes many in one call: a call costs more than hashing four bytes.
class IntegerUpdates {
 public:
  explicit IntegerUpdates(Sha256& sha) : sha_(sha) {}
  void Add(uint32_t value) {
    if (size_ == sizeof(bytes_)) Flush();
    for (int shift = 0; shift < 32; shift += 8) {
      bytes_[size_++] = static_cast<char>((value >> shift) & 0xFF);
    }
  }
  void Flush() {
    sha_.Update(absl::string_view(bytes_, size_));
    size_ = 0;
  }

 private:
  Sha256& sha_;
  char bytes_[4096];
  size_t size_ = 0;
};

void AddTokens(IntegerUpdates& integers, absl::Span<const int32_t> token_ids, int first, int end) {
  for (int i = first; i < end; ++i) {
    // tests/planted_bugs: digest_without_token_ids
    integers.Add(static_cast<uint32_t>(token_ids[static_cast<size_t>(i)]));
  }
}

int LayerBegin(const KvDigestInput& input, int layer) {
  return input.layer_begins.empty() ? 0 : input.layer_begins[static_cast<size_t>(layer)];
}

void AddPages(Sha256& sha, const KvDigestInput& input, int first, int end) {
  IntegerUpdates integers(sha);
  for (int page = first; page < end; ++page) {
    const int token = page * kKvPageTokens;
    AddTokens(integers, input.token_ids, token, std::min(token + kKvPageTokens, input.end_token));
    for (int layer = 0; layer < input.crcs.layers(); ++layer) {
      // tests/planted_bugs: digest_page_crc
      if (LayerBegin(input, layer) <= token) integers.Add(input.crcs.At(layer, page));
    }
  }
  integers.Flush();
}

}  // namespace

PageCrcTable::PageCrcTable(int layers, int tokens)
    : layers_(layers),
      pages_(KvPages(tokens)),
      crcs_(static_cast<size_t>(layers) * static_cast<size_t>(pages_)) {}

std::string KvDigest(const KvDigestInput& input) { return KvDigester().Digest(input); }

std::string KvDigester::Digest(const KvDigestInput& input) {
  if (!sha_.has_value()) {
    sha_.emplace();
    UpdateIdentity(*sha_, input.identity);
    IntegerUpdates integers(*sha_);
    integers.Add(static_cast<uint32_t>(input.start_token));
    AddTokens(integers, input.token_ids, 0, input.start_token);
    integers.Add(static_cast<uint32_t>(input.crcs.layers()));
    for (int layer = 0; layer < input.crcs.layers(); ++layer) {
      integers.Add(static_cast<uint32_t>(LayerBegin(input, layer)));
    }
    integers.Flush();
    next_page_ = input.start_token / kKvPageTokens;
  }
  const int whole_pages = input.end_token / kKvPageTokens;
  BATON_CHECK(next_page_ <= whole_pages, "digests of ascending ends");
  AddPages(*sha_, input, next_page_, whole_pages);
  next_page_ = whole_pages;

  Sha256 sha = *sha_;
  AddPages(sha, input, whole_pages, KvPages(input.end_token));
  sha.UpdateInteger(static_cast<uint32_t>(input.end_token));
  sha.UpdateInteger(static_cast<uint32_t>(input.first_tokens.size()));
  for (const OutputToken& token : input.first_tokens) UpdateToken(sha, token);
  return sha.Finish();
}

std::vector<uint64_t> PageHashes(const ModelIdentity& identity, const std::string& cache_salt,
                                 const std::string& numerics, absl::Span<const int32_t> token_ids) {
  Sha256 root;
  UpdateIdentity(root, identity);
  UpdateBytes(root, cache_salt);
  UpdateBytes(root, numerics);
  Hash128 hash = ChainHash(Hash128{}, root.Finish());
  std::vector<uint64_t> words;
  for (size_t first = 0; first < token_ids.size(); first += kKvPageTokens) {
    std::string bytes;
    for (const int32_t id : token_ids.subspan(first, kKvPageTokens)) {
      for (int shift = 0; shift < 32; shift += 8) {
        bytes.push_back(static_cast<char>((static_cast<uint32_t>(id) >> shift) & 0xFF));
      }
    }
    hash = ChainHash(hash, bytes);
    words.push_back(hash.high);
    words.push_back(hash.low);
  }
  return words;
}

}  // namespace baton
