// Two hashes: a 128-bit one for chains of KV pages and lookups, and SHA-256 where two processes
// must agree on content.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "absl/strings/string_view.h"

namespace baton {

struct Hash128 {
  uint64_t high = 0;
  uint64_t low = 0;
  friend auto operator<=>(const Hash128&, const Hash128&) = default;
  template <typename H>
  friend H AbslHashValue(H h, const Hash128& hash) {
    return H::combine(std::move(h), hash.high, hash.low);
  }
};

// The next link of a chain: XXH3-128 over the 16 bytes of `parent` and then `bytes`. An adversary
// can make collisions, so a lookup by this hash must compare the content, too.
Hash128 ChainHash(const Hash128& parent, absl::string_view bytes);

// Computes SHA-256 of bytes that come in pieces. Not thread-safe.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;
  // A copy has taken the same bytes as the original, and goes on by itself.
  Sha256(const Sha256& other);
  Sha256& operator=(const Sha256& other);

  void Update(absl::string_view bytes);
  // Takes the integer's bytes, little-endian.
  template <typename T>
  void UpdateInteger(T value) {
    static_assert(std::is_integral_v<T>);
    const auto wide = static_cast<uint64_t>(value);
    char bytes[sizeof(T)];
    for (size_t i = 0; i < sizeof(T); ++i) bytes[i] = static_cast<char>(wide >> (8 * i));
    Update(absl::string_view(bytes, sizeof(T)));
  }
  // Returns the 32 bytes of the hash. REQUIRES: it is the last call.
  std::string Finish();

 private:
  struct Free {
    void operator()(void* context) const;
  };
  std::unique_ptr<void, Free> context_;  // EVP_MD_CTX
};

// Writes any bytes as lower-case hexadecimal.
std::string ToHex(absl::string_view bytes);

}  // namespace baton
