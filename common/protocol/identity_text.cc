#include "common/protocol/identity_text.h"

#include "absl/strings/str_cat.h"

#include "common/base/hash.h"
#include "common/base/log.h"

namespace baton {

using internal::v1::ModelIdentity;

std::string IdentityText(const ModelIdentity& identity) {
  return absl::StrCat(
      "{protocol ", identity.protocol_version(), ", architecture ",
      LogSafe(identity.architecture()), ", weights ", ToHex(identity.weights_digest()), ", config ",
      ToHex(identity.config_digest()), ", tokenizer ", ToHex(identity.tokenizer_digest()), "}");
}

bool SameIdentity(const ModelIdentity& a, const ModelIdentity& b) {
  return a.protocol_version() == b.protocol_version() && a.weights_digest() == b.weights_digest() &&
         a.architecture() == b.architecture() && a.config_digest() == b.config_digest() &&
         a.tokenizer_digest() == b.tokenizer_digest();
}

}  // namespace baton
