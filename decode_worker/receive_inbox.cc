#include "decode_worker/receive_inbox.h"

#include <utility>

#include "common/base/check.h"

namespace baton {
namespace {

// Messages of streams that may wait. A push needs few: each of its streams has one under way.
constexpr size_t kStreamMessages = 4096;
constexpr size_t kOwnPlaces = 8;  // for a grant and cancellations

}  // namespace

// Beside an event for each slot in use, a grant of a slot may come when its user is already going.
ReceiveInbox::ReceiveInbox(size_t staging_slots)
    : own_places_(staging_slots == 0 ? kOwnPlaces : kOwnPlaces + staging_slots + 2),
      messages_(kStreamMessages + own_places_) {}

void ReceiveInbox::PostFromStream(Message message) {
  if (messages_.TryPush(std::move(message), own_places_) == Pushed::kFull) lost_ = true;
}

bool ReceiveInbox::Post(Message message) {
  const Pushed pushed = messages_.TryPush(std::move(message));
  BATON_CHECK(pushed != Pushed::kFull, "places are kept for these messages");
  return pushed == Pushed::kYes;
}

}  // namespace baton
