#include "common/engine/mailbox.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"

namespace baton {

absl::Status Mailbox::Submit(Submission submission) {
  absl::MutexLock lock(&mutex_);
  if (waiting_ >= max_waiting_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("queue: ", waiting_, " sequences wait already; try again later"));
  }
  BATON_CHECK(living_.insert(submission.id).second, "a sequence id is used twice");
  ++waiting_;
  contents_.submissions.push_back(std::move(submission));
  return absl::OkStatus();
}

void Mailbox::OpenReceive(SequenceId id) {
  absl::MutexLock lock(&mutex_);
  if (Control* control = ControlOf(id)) control->open_receive = true;
}

void Mailbox::Commit(SequenceId id, OutputToken first_token) {
  absl::MutexLock lock(&mutex_);
  if (Control* control = ControlOf(id)) control->commit = std::move(first_token);
}

void Mailbox::SetPaused(SequenceId id, bool paused) {
  absl::MutexLock lock(&mutex_);
  if (Control* control = ControlOf(id)) control->paused = paused;
}

void Mailbox::Release(SequenceId id) {
  absl::MutexLock lock(&mutex_);
  if (Control* control = ControlOf(id)) control->release = true;
}

Mailbox::Contents Mailbox::Take() {
  absl::MutexLock lock(&mutex_);
  return std::exchange(contents_, {});
}

void Mailbox::Wait(absl::Duration timeout) {
  absl::MutexLock lock(&mutex_);
  mutex_.AwaitWithTimeout(absl::Condition(this, &Mailbox::SomethingThere), timeout);
  wake_ = false;
}

void Mailbox::Wake() {
  absl::MutexLock lock(&mutex_);
  wake_ = true;
}

void Mailbox::Admitted() {
  absl::MutexLock lock(&mutex_);
  --waiting_;
}

void Mailbox::Ended(SequenceId id) {
  absl::MutexLock lock(&mutex_);
  living_.erase(id);
  contents_.controls.erase(id);
}

int Mailbox::submissions() const {
  absl::MutexLock lock(&mutex_);
  return static_cast<int>(contents_.submissions.size());
}

bool Mailbox::SomethingThere() const {
  return wake_ || !contents_.submissions.empty() || !contents_.controls.empty();
}

Mailbox::Control* Mailbox::ControlOf(SequenceId id) {
  return living_.contains(id) ? &contents_.controls[id] : nullptr;
}

}  // namespace baton
