#include "decode_worker/staged_copier.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "common/handoff/staged_copies.h"
#include "decode_worker/payload_copier.h"

namespace baton {

StagedCopier::StagedCopier(KvStaging& staging, std::function<void(Event)> post)
    : staging_(staging),
      post_(std::move(post)),
      user_(staging_, [post = post_](KvStaging::Slot slot) { post(std::move(slot)); }) {}

void StagedCopier::Add(const ReceiveAction::Copy& copy, const KvDataMessage& message) {
  copies_.push_back({copy, &message});
}

void StagedCopier::On(Event event) {
  if (auto* slot = std::get_if<KvStaging::Slot>(&event)) {
    waiting_for_slot_ = false;
    granted_ = std::move(*slot);
    return;
  }
  for (Copy& copy : copies_) {
    const auto piece = copy.pieces.find(std::get<Copied>(event).piece);
    if (piece == copy.pieces.end()) continue;
    piece->second.slot = {};
    copy.ok = copy.ok && piece->second.done.ok;
    --copy.under_way;
    return;
  }
}

std::vector<ReceiveEvent::CopyDone> StagedCopier::Advance(const KvBlocks& blocks, bool abandon) {
  for (Copy& copy : copies_) {
    if (abandon && !copy.filled()) copy.ok = false;
    while (copy.ok && !copy.filled() && HaveSlot()) CopyNext(copy, blocks);
    if (copy.ok && !copy.filled()) break;
  }
  std::vector<ReceiveEvent::CopyDone> done;
  for (auto copy = copies_.begin(); copy != copies_.end();) {
    // tests/planted_bugs: copy_done_before_the_device
    if (copy->under_way > 0 || (copy->ok && !copy->filled())) {
      ++copy;
      continue;
    }
    done.push_back(DoneOf(*copy));
    copy = copies_.erase(copy);
  }
  const auto needs_slot = [](const Copy& copy) { return copy.ok && !copy.filled(); };
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
  const int begin = range.tokens.begin + copy.next_token;
  const LayerTokens kv = {range.layer,
                          {begin, std::min(begin + staging_.slot_tokens(), range.tokens.end)}};
  copy.next_token += kv.tokens.size();
  if (copy.next_token == range.tokens.size()) {
    ++copy.next_range;
    copy.next_token = 0;
  }
  const uint64_t id = ++last_piece_;
  Piece& piece = copy.pieces[id];
  piece.slot = std::exchange(granted_, {});
  piece.staged = {piece.slot.data(), staging_.layout(), {0}};
  piece.done.ok = true;
  ++copy.under_way;
  const KvLayerRows rows = {&piece.staged, kv.layer, 0, begin};
  std::vector<DeviceCopy> to_device = StagedCopies(RowsOfLayer(blocks, kv.layer), rows, kv.tokens);
  // The last that happens to a piece is that it is posted: then this, and the copy, may be gone.
  staging_.jobs().Do([&copies = staging_.copies(), &copy = copy.copy, &message = *copy.message, kv,
                      rows, &done = piece.done, to_device = std::move(to_device),
                      posted = [post = post_, id] { post(Copied{id}); }] {
    const KvWireFormat format(rows.blocks->layout, copy.wire_type);
    if (!CopyRange(copy, message, format, kv, rows, done)) return posted();
    copies.ToDevice(to_device, posted);
  });
}

// Its pages' CRCs in their order, whichever piece was copied first.
ReceiveEvent::CopyDone StagedCopier::DoneOf(const Copy& copy) {
  ReceiveEvent::CopyDone done{copy.copy.copy_id, copy.ok, {}, {}};
  for (const auto& [id, piece] : copy.pieces) {
    const std::vector<uint32_t>& crcs = piece.done.page_crcs;
    done.page_crcs.insert(done.page_crcs.end(), crcs.begin(), crcs.end());
  }
  return done;
}

}  // namespace baton
