#include "common/kv/cache.h"

#include <climits>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/crc32c.h"

namespace baton {

absl::StatusOr<std::unique_ptr<KvCache>> KvCache::Create(Backend& backend, const KvLayout& layout,
                                                         int block_count) {
  BATON_CHECK(layout.block_size > 0 && layout.block_size % kKvPageTokens == 0,
              "blocks are whole pages");
  BATON_CHECK(layout.layers > 0 && layout.kv_heads > 0 && layout.head_dim > 0, "layout");
  if (block_count <= 0) {
    return absl::InvalidArgumentError(
        "the KV cache needs at least one block; raise --num-kv-blocks or --kv-cache-memory-bytes");
  }
  const size_t bytes = layout.block_bytes() * static_cast<size_t>(block_count);
  if (bytes / layout.block_bytes() != static_cast<size_t>(block_count)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "KV cache of ", block_count, " blocks: larger than memory; lower --num-kv-blocks"));
  }
  absl::StatusOr<BackendBuffer> data = backend.Allocate(bytes);
  if (!data.ok()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "KV cache of ", block_count, " blocks x ", layout.block_bytes(),
        " bytes: ", data.status().message(), "; lower --num-kv-blocks or --kv-cache-memory-bytes"));
  }
  return std::unique_ptr<KvCache>(
      new KvCache(layout, block_count, backend.host_memory(), *std::move(data)));
}

KvCache::KvCache(const KvLayout& layout, int block_count, bool host_memory, BackendBuffer data)
    : layout_(layout),
      block_count_(block_count),
      host_memory_(host_memory),
      buffer_(std::move(data)),
      page_crcs_(static_cast<size_t>(block_count) * static_cast<size_t>(layout.layers) *
                 static_cast<size_t>(layout.pages_per_block())) {}

KvLayerView KvCache::LayerView(int layer) const {
  return {.blocks = buffer_.data(),
          .block_bytes = layout_.block_bytes(),
          .keys_offset = layout_.RowOffset(layer, KvLayout::kKeys, 0),
          .values_offset = layout_.RowOffset(layer, KvLayout::kValues, 0),
          .block_size = layout_.block_size,
          .kv_heads = layout_.kv_heads,
          .head_dim = layout_.head_dim,
          .dtype = layout_.dtype};
}

uint32_t KvCache::ComputePageCrc(int32_t block, int layer, int page_in_block, int tokens) const {
  BATON_CHECK(host_memory_, "pages that the host can read");
  BATON_CHECK(block >= 0 && block < block_count_ && tokens > 0 && tokens <= kKvPageTokens,
              "page of the cache");
  const size_t bytes = layout_.row_bytes() * static_cast<size_t>(tokens);
  const int token = page_in_block * kKvPageTokens;
  const uint8_t* data = Block(block);
  const uint32_t keys = Crc32c(data + layout_.RowOffset(layer, KvLayout::kKeys, token), bytes);
  return ExtendCrc32c(keys, data + layout_.RowOffset(layer, KvLayout::kValues, token), bytes);
}

}  // namespace baton
