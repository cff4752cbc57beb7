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
#include "common/kv/layout.h"

namespace baton {

// Thread rule: who holds a block (see BlockPool) may read and write its bytes and its page CRCs
// from any thread; the cache itself is immutable after Create. Blocks keep their address for the
// cache's life. In a device's memory (host_memory() is false) only the backend's operations and
// copies reach them. Borrows the backend.
class KvCache {
 public:
  // RESOURCE_EXHAUSTED says what is needed and which flags help.
  static absl::StatusOr<std::unique_ptr<KvCache>> Create(Backend& backend, const KvLayout& layout,
                                                         int block_count);

  const KvLayout& layout() const { return layout_; }
  int block_count() const { return block_count_; }
  // Whether the host may read and write the blocks' bytes by itself.
  bool host_memory() const { return copies_ == nullptr; }
  // What brings them to the host and back; null where host_memory().
  DeviceCopies* device_copies() const { return copies_; }

  // `layout().block_bytes()` bytes. REQUIRES: 0 <= block < block_count().
  uint8_t* Block(int32_t block) const {
    return buffer_.data() + static_cast<size_t>(block) * layout_.block_bytes();
  }

  // What the backend's operations take.
  KvLayerView LayerView(int layer) const;

  // Block `to` becomes what `from` is once the backend's operations before it are done, its page
  // CRCs too: an operation of the backend, whose thread rule holds.
  void CopyBlock(int32_t from, int32_t to);

  // CRC32C of a page in one layer: its K rows and scales, then V's (only of tokens that exist).
  // Made when the page is complete (or is the sequence's last), kept until the block is used again.
  // REQUIRES: host_memory().
  uint32_t& PageCrc(int32_t block, int layer, int page_in_block) {
    return page_crcs_[PageIndex(block, layer, page_in_block)];
  }
  // The CRC of the first `tokens` tokens of a page as they are in memory now. REQUIRES:
  // host_memory(), 0 < tokens <= kKvPageTokens.
  uint32_t ComputePageCrc(int32_t block, int layer, int page_in_block, int tokens) const;
  // The same in a device's memory, where the CRC of a whole page is made when it is first staged:
  // keeps `crc` for this life of the block (BlockPool::generation), unless one is kept already.
  // False where that is another: the page has changed. REQUIRES: !host_memory().
  [[nodiscard]] bool KeepStagedPageCrc(int32_t block, uint32_t generation, int layer,
                                       int page_in_block, uint32_t crc);

 private:
  KvCache(Backend& backend, const KvLayout& layout, int block_count, BackendBuffer data);
  size_t PageIndex(int32_t block, int layer, int page_in_block) const {
    return (static_cast<size_t>(block) * static_cast<size_t>(layout_.layers) +
            static_cast<size_t>(layer)) *
               static_cast<size_t>(layout_.pages_per_block()) +
           static_cast<size_t>(page_in_block);
  }

  Backend& backend_;
  KvLayout layout_;
  int block_count_;
  DeviceCopies* copies_;
  BackendBuffer buffer_;
  // [block][layer][page in block], the one that the cache's memory needs. Staged: generation + 1 in
  // the upper half; 0 where none was kept yet.
  std::vector<uint32_t> page_crcs_;
  std::vector<std::atomic<uint64_t>> staged_page_crcs_;
};

}  // namespace baton
