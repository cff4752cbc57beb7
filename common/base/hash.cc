#include "common/base/hash.h"

#include <openssl/evp.h>
#include <xxhash.h>

#include <cstring>
#include <utility>

#include "absl/strings/escaping.h"

#include "common/base/check.h"

namespace baton {

Hash128 ChainHash(const Hash128& parent, absl::string_view bytes) {
  // The parent is part of the input and not XXH3's seed, because short inputs lose bits of a seed.
  std::string input(sizeof(parent.high) + sizeof(parent.low), '\0');
  std::memcpy(input.data(), &parent.high, sizeof(parent.high));
  std::memcpy(input.data() + sizeof(parent.high), &parent.low, sizeof(parent.low));
  input.append(bytes.data(), bytes.size());
  const XXH128_hash_t hash = XXH3_128bits(input.data(), input.size());
  return {.high = hash.high64, .low = hash.low64};
}

void Sha256::Free::operator()(void* context) const {
  EVP_MD_CTX_free(static_cast<EVP_MD_CTX*>(context));
}

Sha256::Sha256() : context_(EVP_MD_CTX_new()) {
  BATON_CHECK(context_ != nullptr && EVP_DigestInit_ex(static_cast<EVP_MD_CTX*>(context_.get()),
                                                       EVP_sha256(), nullptr) == 1,
              "OpenSSL cannot make a SHA-256 context");
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256::Sha256(const Sha256& other) : Sha256() { *this = other; }
Sha256& Sha256::operator=(const Sha256& other) {
  BATON_CHECK(EVP_MD_CTX_copy_ex(static_cast<EVP_MD_CTX*>(context_.get()),
                                 static_cast<const EVP_MD_CTX*>(other.context_.get())) == 1,
              "OpenSSL cannot copy a SHA-256 context");
  return *this;
}

void Sha256::Update(absl::string_view bytes) {
  BATON_CHECK(
      EVP_DigestUpdate(static_cast<EVP_MD_CTX*>(context_.get()), bytes.data(), bytes.size()) == 1,
      "OpenSSL must add bytes to a SHA-256");
}

std::string Sha256::Finish() {
  std::string digest(32, '\0');
  BATON_CHECK(EVP_DigestFinal_ex(static_cast<EVP_MD_CTX*>(context_.get()),
                                 reinterpret_cast<unsigned char*>(digest.data()), nullptr) == 1,
              "OpenSSL must finish a SHA-256");
  return digest;
}

std::string ToHex(absl::string_view bytes) { return absl::BytesToHexString(bytes); }

}  // namespace baton
