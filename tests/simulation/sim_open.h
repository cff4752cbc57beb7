// What the simulated workers agree on about an attempt.
#pragma once

#include "common/rpc/kv_digest.h"
#include "tests/simulation/sim.h"

namespace baton {

inline internal::v1::ModelIdentity SimIdentity() {
  internal::v1::ModelIdentity identity;
  identity.set_protocol_version(1);
  identity.set_architecture("llama");
  identity.set_weights_digest(std::string(32, 'w'));
  return identity;
}

inline internal::v1::KvShape SimShape(int block_size) {
  internal::v1::KvShape shape;
  shape.set_layers(kSimLayers);
  shape.set_kv_heads(1);
  shape.set_head_dim(4);
  shape.set_dtype("f16");
  shape.set_block_size(static_cast<uint32_t>(block_size));
  shape.set_numerics("cpu");
  shape.add_wire_dtypes("f16");
  return shape;
}

inline int OutputIndex(const SimAttempt& attempt) {
  return static_cast<int>(attempt.token_ids.size()) - attempt.prompt_length;
}

// The open of a prefill worker; now and then one that runs something else.
inline internal::v1::PushOpen SimOpen(Sim& sim, const SimAttempt& attempt, int block_size) {
  internal::v1::PushOpen open;
  *open.mutable_key() = attempt.key;
  open.set_capability(attempt.capability);
  *open.mutable_identity() = SimIdentity();
  *open.mutable_shape() = SimShape(block_size);
  open.set_wire_dtype("f16");
  open.set_token_count(static_cast<uint32_t>(attempt.token_ids.size()));
  const std::vector<uint64_t> hashes = PageHashes(open.identity(), "", "cpu", attempt.token_ids);
  open.mutable_page_hashes()->Add(hashes.begin(), hashes.end());
  if (sim.Strikes(Fault::kOtherModel)) {
    open.mutable_identity()->set_weights_digest(std::string(32, 'v'));
  }
  if (sim.Strikes(Fault::kOtherShape)) open.mutable_shape()->set_head_dim(8);
  return open;
}

}  // namespace baton
