// The sides whose blocks are in a device's memory: what is staged, and what is copied late.
#include <algorithm>
#include <cstring>
#include <utility>

#include "gtest/gtest.h"

#include "common/backend/make_backend.h"
#include "tests/decode_worker/handoff_pair.h"

namespace baton {
namespace {

std::vector<int32_t> ShuffledTable(int blocks, int pool, std::mt19937_64& random) {
  std::vector<int32_t> ids(static_cast<size_t>(pool));
  for (int i = 0; i < pool; ++i) ids[static_cast<size_t>(i)] = i;
  std::shuffle(ids.begin(), ids.end(), random);
  ids.resize(static_cast<size_t>(blocks));
  return ids;
}

}  // namespace

HandoffPair::Memory HandoffPair::MakeMemory(int block_size, int staging_pages) {
  const KvLayout layout = LayoutOf(block_size);
  Memory memory;
  const size_t bytes = kPool * layout.block_bytes();
  uint8_t* base = nullptr;
  if (staging_pages == 0) {
    memory.host.resize(bytes);
    base = memory.host.data();
  } else {
    memory.backend = std::make_unique<LateBackend>(*MakeBackend({.device = "cpu", .threads = 1}),
                                                   LateBackend::Memory::kFar, random_());
    memory.cache = *KvCache::Create(*memory.backend, layout, kPool);
    const KvLayout page = {.layers = 1,
                           .kv_heads = layout.kv_heads,
                           .head_dim = layout.head_dim,
                           .block_size = kKvPageTokens};
    memory.staging = *KvStaging::Create(
        *memory.cache,
        {.bytes = static_cast<uint64_t>(staging_pages) * page.block_bytes(), .chunk_tokens = 64});
    memory.device.base = memory.cache->Block(0);
    base = memory.backend->Near(memory.device.base);
  }
  std::memset(base, kCanary, bytes);
  memory.blocks = {base, layout, ShuffledTable(layout.BlocksFor(options_.tokens), kPool, random_)};
  memory.device = {memory.device.base, layout, memory.blocks.block_table};
  return memory;
}

void HandoffPair::MakeStagers() {
  generations_.assign(sender_blocks_.block_table.size(), 1);
  if (sender_memory_.staging != nullptr) {
    stager_.emplace(LayerStager::Options{
        .staging = sender_memory_.staging.get(),
        .wire = KvWireFormat(sender_blocks_.layout, KvType::kF16),
        .post = [this](LayerStager::Event event) { sender_staged_.push_back(std::move(event)); },
        .block_generation = [](int32_t) { return 1u; }});
  }
  if (receiver_memory_.staging != nullptr) {
    copier_.emplace(*receiver_memory_.staging, [this](StagedCopier::Event event) {
      receiver_staged_.push_back(std::move(event));
    });
  }
}

bool HandoffPair::EngineEventIsStaged(const SendEvent::Any& event) {
  if (!stager_.has_value()) return false;
  if (const auto* layer = std::get_if<SendEvent::LayerReady>(&event)) {
    stager_->Add(*layer, sender_memory_.backend->copies().Mark());
    return true;
  }
  const auto* chunk = std::get_if<SendEvent::ChunkReady>(&event);
  if (chunk != nullptr) stager_->Add(*chunk);
  return chunk != nullptr;
}

// What one side does may be the other's.
void HandoffPair::Settle() {
  for (int i = 0; i < 2; ++i) {
    SettleReceiver();
    SettleSender();
  }
}

void HandoffPair::SettleSender() {
  if (stager_.has_value()) {
    for (const SendEvent::Any& event :
         stager_->Advance(*sender_, {sender_memory_.device, generations_})) {
      Deliver(event);
    }
    if (!stager_->idle()) return;
  }
  if (!std::exchange(sender_may_release_, false)) return;
  sender_released_ = true;
  if (!stager_.has_value()) return;
  EXPECT_EQ(sender_memory_.backend->copies().to_host(), 0) << "blocks given back under a copy";
}

void HandoffPair::SettleReceiver() {
  while (copier_.has_value()) {
    for (const ReceiveAction::Copy& copy : std::exchange(new_copies_, {})) {
      copier_->Add(copy, messages_.at(copy.message_id));
    }
    const bool abandon = receiver_->state() == ReceiveMachine::State::kDraining;
    const auto done = copier_->Advance(receiver_memory_.device, abandon);
    if (done.empty()) return;
    for (const ReceiveEvent::CopyDone& copy : done) CopyIsDone(copy);
  }
}

void HandoffPair::CopyIsDone(const ReceiveEvent::CopyDone& done) {
  const auto copy = std::find_if(copies_.begin(), copies_.end(), [&done](const auto& other) {
    return other.copy_id == done.copy_id;
  });
  ASSERT_NE(copy, copies_.end());
  CheckCopyDone(*copy);
  copies_.erase(copy);
  Deliver(done);
}

}  // namespace baton
