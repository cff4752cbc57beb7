#include "decode_worker/staged_copier.h"

#include <algorithm>
#include <utility>

#include "common/handoff/staged_copies.h"
#include "decode_worker/payload_copier.h"

namespace baton {

StagedCopier::StagedCopier(KvStaging& staging, std::function<void(Event)> post)
    : staging_(staging),
      post_(std::move(post)),
      user_(staging_, [post = post_](KvStaging::Slot slot) { post(std::move(slot)); }) {}

void StagedCopier::Add(const ReceiveAction::Copy& copy, const KvDataMessage& message) {
  copies_.push_back({copy, &message, {copy.copy_id, true, {}, {}}});
}

void StagedCopier::On(Event event) {
  if (auto* slot = std::get_if<KvStaging::Slot>(&event)) {
    waiting_for_slot_ = false;
    granted_ = std::move(*slot);
    return;
  }
  const uint64_t piece = std::get<Copied>(event).piece;
  pieces_.erase(piece);
  for (Copy& copy : copies_) {
    copy.pieces.erase(std::remove(copy.pieces.begin(), copy.pieces.end(), piece),
                      copy.pieces.end());
  }
}

std::vector<ReceiveEvent::CopyDone> StagedCopier::Advance(const KvBlocks& blocks, bool abandon) {
  for (Copy& copy : copies_) {
    if (abandon && !copy.filled()) copy.done.ok = false;
    while (copy.done.ok && !copy.filled() && HaveSlot()) CopyNext(copy, blocks);
    if (copy.done.ok && !copy.filled()) break;
  }
  std::vector<ReceiveEvent::CopyDone> done;
  for (auto copy = copies_.begin(); copy != copies_.end();) {
    if (!copy->pieces.empty() || (copy->done.ok && !copy->filled())) {
      ++copy;
      continue;
    }
    done.push_back(std::move(copy->done));
    copy = copies_.erase(copy);
  }
  const auto needs_slot = [](const Copy& copy) { return copy.done.ok && !copy.filled(); };
  if (std::none_of(copies_.begin(), copies_.end(), needs_slot)) granted_ = {};
  return done;
}

bool StagedCopier::HaveSlot() {
  if (!granted_.empty()) return true;
  if (waiting_for_slot_) return false;
  granted_ = user_.Take();
  waiting_for_slot_ = granted_.empty();
  return !waiting_for_slot_;
}

void StagedCopier::CopyNext(Copy& copy, const KvBlocks& blocks) {
  const LayerTokens& range = copy.copy.ranges[copy.next_range];
  KvStaging::Slot slot = std::exchange(granted_, {});
  const int begin = range.tokens.begin + copy.next_token;
  const TokenRange tokens = {begin, std::min(begin + staging_.slot_tokens(), range.tokens.end)};
  const KvBlocks staged = {slot.data(), staging_.layout(), {0}};
  const KvLayerRows rows = {&staged, range.layer, 0, begin};
  const KvWireFormat format(staged.layout, copy.copy.wire_type);
  if (!CopyRange(copy.copy, *copy.message, format, {range.layer, tokens}, rows, copy.done)) return;
  copy.next_token += tokens.size();
  if (copy.next_token == range.tokens.size()) {
    ++copy.next_range;
    copy.next_token = 0;
  }
  const uint64_t id = ++last_piece_;
  copy.pieces.push_back(id);
  pieces_[id] = std::move(slot);
  staging_.copies().ToDevice(StagedCopies(RowsOfLayer(blocks, range.layer), rows, tokens),
                             [post = post_, id] { post(Copied{id}); });
}

}  // namespace baton
