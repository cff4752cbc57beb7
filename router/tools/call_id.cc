#include "router/tools/call_id.h"

#include "common/base/check.h"
#include "common/base/hash.h"

namespace baton {
namespace {

std::string LettersAndDigits(Sha256 hash, size_t bytes) {
  constexpr absl::string_view kAlphabet =
      "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
  std::string id = hash.Finish();
  BATON_CHECK(bytes <= id.size(), "an id is no longer than a hash");
  id.resize(bytes);
  for (char& byte : id) byte = kAlphabet[static_cast<unsigned char>(byte) % kAlphabet.size()];
  return id;
}

}  // namespace

std::string CallId(uint64_t seed, int choice, int call) {
  Sha256 hash;
  hash.UpdateInteger(seed);
  hash.UpdateInteger(choice);
  hash.UpdateInteger(call);
  return LettersAndDigits(std::move(hash), kCallIdBytes);
}

std::string ShortId(absl::string_view id, size_t bytes) {
  Sha256 hash;
  hash.Update(id);
  return LettersAndDigits(std::move(hash), bytes);
}

}  // namespace baton
