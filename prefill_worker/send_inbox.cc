#include "prefill_worker/send_inbox.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/check.h"
#include "common/rpc/limits.h"

namespace baton {
namespace {

constexpr absl::Duration kLongestWait = absl::Hours(1);
constexpr size_t kAborts = 8;  // places for aborts; a call posts at most two

// Places for aborts, for an answer and the end of each stream, and for the events of the staging.
// Beside an event for each slot in use, a grant of a slot may come when its user is already going.
size_t OwnPlaces(size_t staging_slots) {
  constexpr size_t kOfStreams = 2 * size_t{kMaxKvStreams};
  return kAborts + kOfStreams + (staging_slots == 0 ? 0 : staging_slots + 2);
}

bool IsOfThePrefill(const SendInbox::Message& message) {
  return std::holds_alternative<SendInbox::Layer>(message) ||
         std::holds_alternative<SendEvent::ChunkReady>(message) ||
         std::holds_alternative<SendEvent::FirstToken>(message) ||
         std::holds_alternative<SendEvent::Alive>(message);
}

}  // namespace

SendInbox::SendInbox(Generation generation, const Bounds& bounds)
    : generation_(std::move(generation)),
      own_places_(OwnPlaces(bounds.staging_slots)),
      messages_(bounds.prefill_messages + own_places_) {
  BATON_CHECK(sem_init(&changed_, 0, 0) == 0, "a semaphore of this process");
}

SendInbox::~SendInbox() { sem_destroy(&changed_); }

void SendInbox::Post(Message message) {
  const bool may_be_lost = IsOfThePrefill(message);
  if (may_be_lost && lost_) return;
  const Pushed pushed = messages_.TryPush(std::move(message), may_be_lost ? own_places_ : 0);
  if (pushed == Pushed::kYes) sem_post(&changed_);
  if (pushed != Pushed::kFull) return;
  BATON_CHECK(may_be_lost, "places are kept for these messages");
  lost_ = true;
}

std::function<void()> SendInbox::Track(std::shared_ptr<SendInbox> inbox,
                                       std::vector<BlockRef> blocks, uint64_t sequence_number) {
  auto* sending = new Sending{std::move(inbox), std::move(blocks), {sequence_number}};
  return [sending] { SlicesGone(sending); };
}

bool SendInbox::Intact(const std::vector<BlockRef>& blocks) const {
  return std::all_of(blocks.begin(), blocks.end(), [this](const BlockRef& block) {
    return generation_(block.id) == block.generation;
  });
}

// Keeps the inbox alive: once the message is in the list, the push's thread deletes it and may be
// done with the inbox.
void SendInbox::SlicesGone(Sending* sending) {
  const std::shared_ptr<SendInbox> inbox = sending->inbox;
  sending->released.intact = inbox->Intact(sending->blocks);
  sending->next = inbox->released_.load(std::memory_order_relaxed);
  while (!inbox->released_.compare_exchange_weak(sending->next, sending, std::memory_order_release,
                                                 std::memory_order_relaxed)) {
  }
  sem_post(&inbox->changed_);
}

std::optional<SendInbox::Released> SendInbox::TakeReleased() {
  if (taken_ == nullptr) {
    Sending* newest = released_.exchange(nullptr, std::memory_order_acquire);
    while (newest != nullptr) {
      Sending* const older = std::exchange(newest->next, taken_);
      taken_ = std::exchange(newest, older);
    }
  }
  if (taken_ == nullptr) return std::nullopt;
  const std::unique_ptr<Sending> sending(std::exchange(taken_, taken_->next));
  return sending->released;
}

// The semaphore may count more posts than there are messages; then a later wait looks once more.
std::optional<SendInbox::Message> SendInbox::Next(absl::Duration timeout) {
  timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  const absl::Duration wait = std::clamp(timeout, absl::ZeroDuration(), kLongestWait);
  until = absl::ToTimespec(absl::DurationFromTimespec(until) + wait);
  while (true) {
    if (std::optional<Released> released = TakeReleased()) return released;
    if (std::optional<Message> message = messages_.Pop(absl::ZeroDuration())) return message;
    if (sem_clockwait(&changed_, CLOCK_MONOTONIC, &until) != 0 && errno != EINTR) {
      return std::nullopt;
    }
  }
}

}  // namespace baton
