#include "common/engine/mailbox.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"

namespace baton {

absl::Status Mailbox::Submit(Submission submission) {
  const std::lock_guard lock(mutex_);
  if (waiting_ >= max_waiting_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("queue: ", waiting_, " sequences wait already; try again later"));
  }
  BATON_CHECK(living_.insert(submission.id).second, "a sequence id is used twice");
  ++waiting_;
  contents_.submissions.push_back(std::move(submission));
  changed_.notify_one();
  return absl::OkStatus();
}

template <typename Change>
void Mailbox::Ask(SequenceId id, Change change) {
  const std::lock_guard lock(mutex_);
  if (!living_.contains(id)) return;
  change(contents_.controls[id]);
  changed_.notify_one();
}

void Mailbox::OpenReceive(SequenceId id) {
  Ask(id, [](Control& control) { control.open_receive = true; });
}

void Mailbox::Commit(SequenceId id, Commitment commitment) {
  Ask(id, [&](Control& control) { control.commit = std::move(commitment); });
}

void Mailbox::SetPaused(SequenceId id, bool paused) {
  Ask(id, [&](Control& control) { control.paused = paused; });
}

void Mailbox::Release(SequenceId id) {
  Ask(id, [](Control& control) { control.release = true; });
}

Mailbox::Contents Mailbox::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(contents_, {});
}

void Mailbox::Wait(absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, absl::ToChronoNanoseconds(timeout), [this] {
    return wake_ || !contents_.submissions.empty() || !contents_.controls.empty();
  });
  wake_ = false;
}

void Mailbox::Wake() {
  const std::lock_guard lock(mutex_);
  wake_ = true;
  changed_.notify_one();
}

void Mailbox::Admitted() {
  const std::lock_guard lock(mutex_);
  --waiting_;
}

void Mailbox::Ended(SequenceId id) {
  const std::lock_guard lock(mutex_);
  living_.erase(id);
  contents_.controls.erase(id);
}

int Mailbox::submissions() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int>(contents_.submissions.size());
}

}  // namespace baton
