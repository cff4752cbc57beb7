#include "common/rpc/limits.h"
#include "common/worker/convert.h"

namespace baton {

internal::v1::ModelIdentity MakeIdentity(const GgufFile& file, const ModelConfig& config) {
  internal::v1::ModelIdentity identity;
  identity.set_protocol_version(kProtocolVersion);
  identity.set_weights_digest(file.Digest());
  identity.set_architecture(config.architecture);
  identity.set_config_digest(config.Digest());
  identity.set_tokenizer_digest(file.TokenizerDigest());
  return identity;
}

}  // namespace baton
