#include "common/engine/mailbox.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "common/base/check.h"
#include "common/base/timed_wait.h"

namespace baton {

absl::Status Mailbox::Submit(Submission submission) {
  const std::lock_guard lock(mutex_);
  if (waiting_ >= max_waiting_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("queue: ", waiting_, " sequences are already waiting; try again later"));
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

void Mailbox::OpenReceive(SequenceId id, std::string kv_numerics) {
  Ask(id, [&](Control& control) { control.open_receive = std::move(kv_numerics); });
}

void Mailbox::Commit(SequenceId id, std::vector<OutputToken> first_tokens,
                     std::optional<AuditOrder> audit) {
  Ask(id, [&](Control& control) {
    control.commit = std::move(first_tokens);
    control.audit = std::move(audit);
  });
}

void Mailbox::SetPaused(SequenceId id, bool paused) {
  Ask(id, [&](Control& control) { control.paused = paused; });
}

void Mailbox::Stop(SequenceId id, int choice) {
  Ask(id, [choice](Control& control) { control.stop.insert(choice); });
}

void Mailbox::Release(SequenceId id, std::optional<int> resume_tokens) {
  Ask(id, [resume_tokens](Control& control) {
    control.release = true;
    if (resume_tokens) control.resume_tokens = resume_tokens;
  });
}

void Mailbox::Distrust(std::string source) {
  const std::lock_guard lock(mutex_);
  contents_.distrusted.insert(std::move(source));
  changed_.notify_one();
}

Mailbox::Contents Mailbox::Take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(contents_, {});
}

void Mailbox::Wait(absl::Duration timeout) {
  std::unique_lock lock(mutex_);
  WaitFor(changed_, lock, timeout, [this] {
    return wake_ || !contents_.submissions.empty() || !contents_.controls.empty() ||
           !contents_.distrusted.empty();
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
