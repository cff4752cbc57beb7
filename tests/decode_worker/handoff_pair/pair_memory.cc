#include "tests/decode_worker/handoff_pair/pair_memory.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "common/backend/make_backend.h"
#include "common/handoff/carried_tokens.h"

namespace baton {

PairMemory::PairMemory(PairRun& run, int block_size, int staging_pages) {
  const KvLayout layout = PairLayout(block_size, run.options.windows);
  const size_t bytes = kPool * layout.block_bytes();
  uint8_t* base = nullptr;
  if (staging_pages == 0) {
    host.resize(bytes);
    base = host.data();
  } else {
    backend = std::make_unique<LateBackend>(*MakeBackend({.device = "cpu", .threads = 1}),
                                            LateBackend::Memory::kFar, run.random());
    cache = *KvCache::Create(*backend, layout, kPool);
    const KvLayout page = {.layers = 1,
                           .kv_heads = layout.kv_heads,
                           .head_dim = layout.head_dim,
                           .block_size = kKvPageTokens};
    staging = *KvStaging::Create(
        *cache,
        {.bytes = static_cast<uint64_t>(staging_pages) * page.block_bytes(), .chunk_tokens = 64});
    device.base = cache->Block(0);
    base = backend->Near(device.base);
  }
  std::memset(base, kCanary, bytes);
  std::vector<int32_t> table(kPool);
  std::iota(table.begin(), table.end(), 0);
  std::shuffle(table.begin(), table.end(), run.random);
  table.resize(static_cast<size_t>(layout.TableEntriesFor(run.options.tokens)));
  for (int group = 0; group < layout.groups.count(); ++group) {
    const int first = layout.groups.FirstHandedOff(group, run.options.tokens);
    for (int block = 0; block < first / block_size; ++block) {
      table[static_cast<size_t>(block * layout.groups.count() + group)] = kNoBlock;
    }
  }
  blocks = {base, layout, table};
  device = {device.base, layout, table};
}

KvLayout PairLayout(int block_size, const std::vector<int>& windows) {
  KvLayout layout = {.layers = 3, .kv_heads = 1, .head_dim = 4, .block_size = block_size};
  if (!windows.empty()) layout.groups = KvLayerGroups(windows);
  return layout;
}

uint8_t PairByte(int layer, int part, int token, size_t byte) {
  uint64_t x = static_cast<uint64_t>(((layer * 2 + part) * 100003 + token) * 64) + byte;
  x = (x ^ (x >> 7)) * 0x9E3779B97F4A7C15ULL;
  return static_cast<uint8_t>(x >> 56);
}

void FillRight(const KvBlocks& blocks, int tokens, int end) {
  for (int layer = 0; layer < blocks.layout.layers; ++layer) {
    for (int part = 0; part < 2; ++part) {
      for (int token = FirstHandedOff(blocks.layout, layer, tokens); token < end; ++token) {
        uint8_t* row = blocks.Row(layer, static_cast<KvLayout::Part>(part), token);
        for (size_t i = 0; i < blocks.layout.row_bytes(); ++i) {
          row[i] = PairByte(layer, part, token, i);
        }
      }
    }
  }
}

}  // namespace baton
