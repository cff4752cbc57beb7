#include "tests/support/push_messages.h"

#include <algorithm>
#include <vector>

#include "common/base/check.h"
#include "common/handoff/carried_tokens.h"
#include "prefill_worker/kv_buffer.h"

namespace baton {

using internal::v1::KvDataHeader;
using internal::v1::PushRequest;

ReceiveConfig MakeReceiverConfig(const KvLayout& layout, int tokens) {
  ReceiveConfig config;
  config.key.set_request_id_low(5);
  config.key.set_attempt(2);
  config.capability = "0123456789abcdef";
  config.identity.set_architecture("llama");
  config.shape.set_layers(static_cast<uint32_t>(layout.layers));
  config.shape.set_kv_heads(static_cast<uint32_t>(layout.kv_heads));
  config.shape.set_head_dim(static_cast<uint32_t>(layout.head_dim));
  config.shape.set_dtype("f16");
  config.shape.add_wire_dtypes("f16");
  config.shape.set_block_size(static_cast<uint32_t>(layout.block_size));
  SetLayerStates(layout, config.shape);
  config.layout = layout;
  for (int i = 0; i < tokens; ++i) config.token_ids.push_back(i);
  config.page_hashes = PageHashes(config.identity, "", "", config.token_ids);
  config.prompt_length = tokens;
  config.vocab_size = 100;
  return config;
}

PushRequest MakeOpen(const ReceiveConfig& config) {
  PushRequest request;
  auto& open = *request.mutable_open();
  *open.mutable_key() = config.key;
  open.set_capability(config.capability);
  *open.mutable_identity() = config.identity;
  *open.mutable_shape() = config.shape;
  open.set_wire_dtype("f16");
  open.set_token_count(static_cast<uint32_t>(config.token_ids.size()));
  open.mutable_page_hashes()->Add(config.page_hashes.begin(), config.page_hashes.end());
  return request;
}

PushRequest MakeCheckpoint(const ReceiveConfig& config, const KvBlocks& source, int start_token,
                           int end_token) {
  const int tokens = static_cast<int>(config.token_ids.size());
  const CarriedTokens carried(config.layout, tokens);
  PushRequest request;
  request.mutable_checkpoint()->set_end_token(static_cast<uint32_t>(end_token));
  if (end_token <= start_token || end_token > tokens) return request;
  request.mutable_checkpoint()->set_digest(KvDigest({.identity = config.identity,
                                                     .token_ids = config.token_ids,
                                                     .start_token = start_token,
                                                     .end_token = end_token,
                                                     .first_tokens = {},
                                                     .crcs = PageCrcsOf(source, tokens),
                                                     .layer_begins = carried.layer_begins()}));
  return request;
}

PushRequest MakeCommit(const ReceiveConfig& config, const KvBlocks& source, int start_token) {
  const int tokens = static_cast<int>(config.token_ids.size());
  const CarriedTokens carried(config.layout, tokens);
  PushRequest request;
  auto& token = *request.mutable_commit()->add_first_tokens();
  token.mutable_token()->set_token_id(3);
  request.mutable_commit()->set_digest(KvDigest({.identity = config.identity,
                                                 .token_ids = config.token_ids,
                                                 .start_token = start_token,
                                                 .end_token = tokens,
                                                 .first_tokens = absl::MakeConstSpan(&token, 1),
                                                 .crcs = PageCrcsOf(source, tokens),
                                                 .layer_begins = carried.layer_begins()}));
  return request;
}

KvDataHeader MakeDataHeader(const ReceiveConfig& config, const KvBlocks& source, int layer,
                            int layers, int first_token, int end_token, uint64_t sequence_number) {
  KvDataHeader header;
  *header.mutable_key() = config.key;
  header.set_sequence_number(sequence_number);
  header.set_first_layer(static_cast<uint32_t>(layer));
  header.set_layer_count(static_cast<uint32_t>(layers));
  header.set_first_token(static_cast<uint32_t>(first_token));
  header.set_token_count(static_cast<uint32_t>(end_token - first_token));
  header.set_state_kind(internal::v1::LAYER_STATE_KIND_ROWS);
  header.set_kv_head_count(static_cast<uint32_t>(source.layout.kv_heads));
  for (int l = layer; l < layer + layers; ++l) {
    for (const TokenRange page : PagesOf({first_token, end_token})) {
      header.add_page_crc32c(source.PageCrc(l, page));
    }
  }
  return header;
}

std::string EncodeData(const KvDataHeader& header, const KvBlocks& source) {
  std::vector<grpc::Slice> slices;
  BATON_CHECK(MakeKvBuffer(header, source, [] {}).Dump(&slices).ok(),
              "the message must become a buffer");
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

PageCrcTable PageCrcsOf(const KvBlocks& blocks, int tokens) {
  PageCrcTable crcs(blocks.layout.layers, tokens);
  for (int layer = 0; layer < crcs.layers(); ++layer) {
    const int begin = FirstHandedOff(blocks.layout, layer, tokens) / kKvPageTokens;
    for (int page = begin; page < crcs.pages(); ++page) {
      const int first = page * kKvPageTokens;
      crcs.At(layer, page) =
          blocks.PageCrc(layer, {first, std::min(first + kKvPageTokens, tokens)});
    }
  }
  return crcs;
}

}  // namespace baton
