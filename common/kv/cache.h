// The bytes of the KV cache: one allocation of the backend, cut into blocks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "common/backend/backend.h"
#include "common/kv/block_ref.h"
#include "common/kv/layout.h"

namespace baton {

// Thread rule: the holder of a block (see BlockPool) may read and write its bytes and its page CRCs
// from any thread. Everything else is immutable after Create. Blocks keep their address as long as
// the cache lives. In a device's memory (host_memory() is false) only the backend's operations and
// copies reach their bytes. Borrows the backend.
class KvCache {
 public:
  // INVALID_ARGUMENT if block_count is not positive, RESOURCE_EXHAUSTED if memory lacks; both
  // say which flags help. REQUIRES: a valid layout, with blocks of whole pages.
  static absl::StatusOr<std::unique_ptr<KvCache>> Create(Backend& backend, const KvLayout& layout,
                                                         int block_count);

  const KvLayout& layout() const { return layout_; }
  int block_count() const { return block_count_; }
  // Whether the host itself can read and write the blocks' bytes.
  bool host_memory() const { return copies_ == nullptr; }
  // Copies the blocks' bytes to the host and back; null if host_memory().
  DeviceCopies* device_copies() const { return copies_; }

  // The block's bytes [layout().block_bytes()]. REQUIRES: 0 <= block < block_count().
  uint8_t* Block(int32_t block) const {
    return buffer_.data() + static_cast<size_t>(block) * layout_.block_bytes();
  }

  // The view of one layer that the backend's operations take.
  KvLayerView LayerView(int layer) const;

  // Copies the bytes and page CRCs of block `from` to block `to`. This is an operation of the
  // backend: it comes after those before it, and the backend's thread rule holds. In a device's
  // memory the copy has no CRCs yet. REQUIRES: from != to.
  void CopyBlock(int32_t from, int32_t to);

  // The stored CRC32C of a page in one layer: over its K rows, K scales, V rows and V scales, of
  // the tokens that exist. The engine stores it when the page is complete or is the sequence's last
  // page. It stays until the block is used anew. REQUIRES: host_memory().
  uint32_t& PageCrc(int32_t block, int layer, int page_in_block) {
    return page_crcs_[PageIndex(block, layer, page_in_block)];
  }
  // Computes the CRC of the first `tokens` tokens of a page from their bytes now. REQUIRES:
  // host_memory(), 0 < tokens <= kKvPageTokens.
  uint32_t ComputePageCrc(int32_t block, int layer, int page_in_block, int tokens) const;
  // For a cache in a device's memory, where the CRC of a whole page is made when the page is first
  // staged. Stores `crc` for this life of the block unless a CRC is stored already. False where the
  // stored CRC differs: the page has changed. Any thread may call it. REQUIRES: !host_memory().
  [[nodiscard]] bool KeepStagedPageCrc(const BlockRef& block, int layer, int page_in_block,
                                       uint32_t crc);

 private:
  KvCache(Backend& backend, const KvLayout& layout, int block_count, BackendBuffer data);
  size_t PageIndex(int32_t block, int layer, int page_in_block) const {
    return (static_cast<size_t>(block) * static_cast<size_t>(layout_.layers_per_block()) +
            static_cast<size_t>(layout_.groups.SlotOf(layer))) *
               static_cast<size_t>(layout_.pages_per_block()) +
           static_cast<size_t>(page_in_block);
  }

  Backend& backend_;
  KvLayout layout_;
  int block_count_;
  DeviceCopies* copies_;
  BackendBuffer buffer_;
  // [block][layer of its group][page in block]; empty unless host_memory()
  std::vector<uint32_t> page_crcs_;
  // [block][layer of its group][page in block]; empty if host_memory(). The lower half of an entry is the
  // CRC, the upper half the block's generation + 1. 0: no CRC was stored yet.
  std::vector<std::atomic<uint64_t>> staged_page_crcs_;
};

}  // namespace baton
