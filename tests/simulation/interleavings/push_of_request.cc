#include "tests/simulation/interleavings/push_of_request.h"

#include "tests/simulation/sim_open.h"

namespace baton {

KvLayout InterleavedLayout() {
  return {.layers = 1, .kv_heads = 1, .head_dim = 4, .block_size = kKvPageTokens};
}

size_t InterleavedPageBytes() {
  return size_t{kKvPageTokens} * InterleavedLayout().bytes_per_token();
}

uint32_t InterleavedCrc(int request, int page) {
  return 0x1000u * static_cast<uint32_t>(request + 1) + static_cast<uint32_t>(page);
}

std::vector<int32_t> InterleavedTokens(int request, int messages) {
  std::vector<int32_t> tokens;
  for (int i = 0; i < messages * kKvPageTokens; ++i) tokens.push_back(request * 500 + i);
  return tokens;
}

internal::v1::PushOpen InterleavedOpen(int request, int messages) {
  internal::v1::PushOpen open;
  open.mutable_key()->set_request_id_low(static_cast<uint64_t>(request) + 1);
  open.mutable_key()->set_attempt(1);
  open.set_capability("0123456789abcdef");
  *open.mutable_identity() = SimIdentity();
  *open.mutable_shape() = SimShape(InterleavedLayout());
  open.set_wire_dtype("f16");
  const std::vector<int32_t> tokens = InterleavedTokens(request, messages);
  open.set_token_count(static_cast<uint32_t>(tokens.size()));
  const std::vector<uint64_t> hashes = PageHashes(open.identity(), "", "cpu", tokens);
  open.mutable_page_hashes()->Add(hashes.begin(), hashes.end());
  return open;
}

}  // namespace baton
