#include "prefill_worker/send_inbox.h"

#include <time.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "common/base/check.h"

namespace baton {
namespace {

constexpr size_t kCapacity = size_t{1} << 20;
constexpr absl::Duration kLongestWait = absl::Hours(1);

}  // namespace

SendInbox::SendInbox(Generation generation)
    : generation_(std::move(generation)), messages_(kCapacity) {
  BATON_CHECK(sem_init(&changed_, 0, 0) == 0, "a semaphore of this process");
}

SendInbox::~SendInbox() { sem_destroy(&changed_); }

void SendInbox::Post(Message message) {
  const Pushed pushed = messages_.TryPush(std::move(message));
  BATON_CHECK(pushed != Pushed::kFull, "a prompt has no more events");
  if (pushed == Pushed::kYes) sem_post(&changed_);
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
