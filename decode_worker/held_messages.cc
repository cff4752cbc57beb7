#include "decode_worker/held_messages.h"

#include <utility>

#include "common/base/check.h"

namespace baton {

bool HeldMessages::HoldsTheSame(const HeldMessage& message) const {
  bool same = false;
  ForEach([&](const HeldMessage& held) {
    same = same || (held.stream == message.stream &&
                    held.header.sequence_number() == message.header.sequence_number() &&
                    held.header.SerializeAsString() == message.header.SerializeAsString());
  });
  return same;
}

bool HeldMessages::HeldFromOthersOnly(const HeldMessage& message) const {
  bool from_other = false;
  bool from_this = false;
  ForEach([&](const HeldMessage& held) {
    if (held.header.sequence_number() != message.header.sequence_number()) return;
    (held.stream == message.stream ? from_this : from_other) = true;
  });
  return from_other && !from_this;
}

std::vector<HeldMessage> HeldMessages::TakeWaiting() { return std::exchange(waiting_, {}); }

uint64_t HeldMessages::BeginCopy(InCopy copy) {
  const uint64_t copy_id = next_copy_id_++;
  copies_[copy_id] = std::move(copy);
  return copy_id;
}

HeldMessages::InCopy HeldMessages::EndCopy(uint64_t copy_id) {
  const auto found = copies_.find(copy_id);
  BATON_CHECK(found != copies_.end(), "each copy is answered once");
  InCopy copy = std::move(found->second);
  copies_.erase(found);
  return copy;
}

void HeldMessages::ForEach(absl::FunctionRef<void(const HeldMessage&)> visit) const {
  for (const HeldMessage& held : waiting_) visit(held);
  for (const auto& [id, copy] : copies_) visit(copy.message);
}

}  // namespace baton
