#include "prefill_worker/push_inbox.h"

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

PushInbox::PushInbox(Generation generation)
    : generation_(std::move(generation)), items_(kCapacity) {
  BATON_CHECK(sem_init(&changed_, 0, 0) == 0, "a semaphore of this process");
}

PushInbox::~PushInbox() { sem_destroy(&changed_); }

void PushInbox::Post(Item item) {
  const Pushed pushed = items_.TryPush(std::move(item));
  BATON_CHECK(pushed != Pushed::kFull, "a prompt has no more events");
  if (pushed == Pushed::kYes) sem_post(&changed_);
}

std::function<void()> PushInbox::Track(std::shared_ptr<PushInbox> inbox,
                                       std::vector<HeldBlock> blocks, uint64_t sequence_number) {
  auto* message = new Message{std::move(inbox), std::move(blocks), sequence_number};
  return [message] { Released(message); };
}

bool PushInbox::Intact(const std::vector<HeldBlock>& blocks) const {
  return std::all_of(blocks.begin(), blocks.end(), [this](const HeldBlock& block) {
    return generation_(block.id) == block.generation;
  });
}

// Keeps the inbox alive: once the message is in the list, the push's thread deletes it and may be
// done with the inbox.
void PushInbox::Released(Message* message) {
  const std::shared_ptr<PushInbox> inbox = message->inbox;
  message->intact = inbox->Intact(message->blocks);
  message->next = inbox->released_.load(std::memory_order_relaxed);
  while (!inbox->released_.compare_exchange_weak(message->next, message, std::memory_order_release,
                                                 std::memory_order_relaxed)) {
  }
  sem_post(&inbox->changed_);
}

std::optional<PushInbox::Item> PushInbox::TakeReleased() {
  if (taken_ == nullptr) {
    Message* newest = released_.exchange(nullptr, std::memory_order_acquire);
    while (newest != nullptr) {
      Message* const older = std::exchange(newest->next, taken_);
      taken_ = std::exchange(newest, older);
    }
  }
  if (taken_ == nullptr) return std::nullopt;
  const std::unique_ptr<Message> message(std::exchange(taken_, taken_->next));
  Item item{KvSender::SlicesReleased{message->intact}, {}, {}};
  item.sequence_number = message->sequence_number;
  return item;
}

// The semaphore may count more posts than there are items; then a later wait looks once more.
std::optional<PushInbox::Item> PushInbox::Next(absl::Duration timeout) {
  timespec until;
  clock_gettime(CLOCK_MONOTONIC, &until);
  const absl::Duration wait = std::clamp(timeout, absl::ZeroDuration(), kLongestWait);
  until = absl::ToTimespec(absl::DurationFromTimespec(until) + wait);
  while (true) {
    if (std::optional<Item> released = TakeReleased()) return released;
    if (std::optional<Item> item = items_.Pop(absl::ZeroDuration())) return item;
    if (sem_clockwait(&changed_, CLOCK_MONOTONIC, &until) != 0 && errno != EINTR) {
      return std::nullopt;
    }
  }
}

}  // namespace baton
