#include "common/kv/cache.h"

#include <algorithm>
#include <climits>
#include <cstddef>
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
  BATON_CHECK(backend.host_memory() == (backend.device_copies() == nullptr),
              "what the host cannot reach is copied");
  BATON_CHECK(layout.layers > 0 && layout.kv_heads > 0 && layout.head_dim > 0,
              "layers, KV heads and head dimension must be positive");
  if (block_count <= 0) {
    return absl::InvalidArgumentError(
        "the KV cache needs at least one block; raise --num-kv-blocks or --kv-cache-memory-bytes");
  }
  const size_t bytes = layout.block_bytes() * static_cast<size_t>(block_count);
  if (bytes / layout.block_bytes() != static_cast<size_t>(block_count)) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "KV cache of ", block_count, " blocks is larger than any memory; lower --num-kv-blocks"));
  }
  absl::StatusOr<BackendBuffer> data = backend.Allocate(bytes);
  if (!data.ok()) {
    return absl::ResourceExhaustedError(absl::StrCat(
        "KV cache of ", block_count, " blocks x ", layout.block_bytes(),
        " bytes: ", data.status().message(), "; lower --num-kv-blocks or --kv-cache-memory-bytes"));
  }
  return std::unique_ptr<KvCache>(new KvCache(backend, layout, block_count, *std::move(data)));
}

KvCache::KvCache(Backend& backend, const KvLayout& layout, int block_count, BackendBuffer data)
    : backend_(backend),
      layout_(layout),
      block_count_(block_count),
      copies_(backend.device_copies()),
      buffer_(std::move(data)),
      page_crcs_(host_memory() ? PageIndex(block_count, 0, 0) : 0),
      staged_page_crcs_(host_memory() ? 0 : PageIndex(block_count, 0, 0)) {}

KvLayerView KvCache::LayerView(int layer) const {
  return {.blocks = buffer_.data(),
          .block_bytes = layout_.block_bytes(),
          .keys_offset = layout_.RowOffset(layer, KvLayout::kKeys, 0),
          .values_offset = layout_.RowOffset(layer, KvLayout::kValues, 0),
          .block_size = layout_.block_size,
          .kv_heads = layout_.kv_heads,
          .head_dim = layout_.head_dim,
          .dtype = layout_.dtype,
          .groups = layout_.groups.count(),
          .group = layout_.groups.GroupOf(layer)};
}

void KvCache::CopyBlock(int32_t from, int32_t to) {
  BATON_CHECK(from != to, "a block is copied to another");
  backend_.Copy(Block(from), layout_.block_bytes(), Block(to));
  // In a device's memory the CRCs of the copy are made when it is first staged.
  if (!host_memory()) return;
  const auto first = page_crcs_.begin() + static_cast<std::ptrdiff_t>(PageIndex(from, 0, 0));
  const auto pages = static_cast<std::ptrdiff_t>(PageIndex(1, 0, 0));
  std::copy(first, first + pages,
            page_crcs_.begin() + static_cast<std::ptrdiff_t>(PageIndex(to, 0, 0)));
}

uint32_t KvCache::ComputePageCrc(int32_t block, int layer, int page_in_block, int tokens) const {
  BATON_CHECK(host_memory(), "pages that the host can read");
  BATON_CHECK(block >= 0 && block < block_count_ && tokens > 0 && tokens <= kKvPageTokens,
              "page of the cache");
  const auto count = static_cast<size_t>(tokens);
  const int token = page_in_block * kKvPageTokens;
  const uint8_t* data = Block(block);
  uint32_t crc = 0;
  for (const KvLayout::Part part : {KvLayout::kKeys, KvLayout::kValues}) {
    crc = ExtendCrc32c(crc, data + layout_.RowOffset(layer, part, token),
                       count * layout_.row_bytes());
    crc = ExtendCrc32c(crc, data + layout_.ScaleOffset(layer, part, token),
                       count * layout_.scale_bytes());
  }
  return crc;
}

bool KvCache::KeepStagedPageCrc(const BlockRef& block, int layer, int page_in_block, uint32_t crc) {
  BATON_CHECK(!host_memory(), "pages that are staged");
  const uint64_t life = (uint64_t{block.generation} + 1) << 32;
  std::atomic<uint64_t>& kept = staged_page_crcs_[PageIndex(block.id, layer, page_in_block)];
  uint64_t found = kept.load();
  // Two threads may stage the page for the first time at once: one stores, the other compares.
  while (found >> 32 != life >> 32) {
    if (kept.compare_exchange_weak(found, life | crc)) return true;
  }
  // tests/planted_bugs: staged_crc_not_compared
  return static_cast<uint32_t>(found) == crc;
}

}  // namespace baton
