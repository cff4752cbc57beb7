#include "router/admission.h"

#include "absl/strings/str_cat.h"

#include "router/request_errors.h"

namespace baton {

absl::StatusOr<Admission::Ticket> Admission::Admit(uint64_t bytes) {
  absl::MutexLock lock(&mutex_);
  if (requests_ >= limits_.requests) {
    return QueueFull(absl::StrCat(requests_, " requests wait"));
  }
  if (requests_ > 0 && bytes_ + bytes > limits_.bytes) {
    return QueueFull(absl::StrCat(bytes_, " bytes of requests wait"));
  }
  ++requests_;
  bytes_ += bytes;
  return Ticket(this, bytes);
}

void Admission::Ticket::Release() {
  Admission* admission = std::exchange(admission_, nullptr);
  if (admission == nullptr) return;
  absl::MutexLock lock(&admission->mutex_);
  --admission->requests_;
  admission->bytes_ -= bytes_;
}

uint32_t Admission::waiting_requests() const {
  absl::MutexLock lock(&mutex_);
  return requests_;
}

uint64_t Admission::waiting_bytes() const {
  absl::MutexLock lock(&mutex_);
  return bytes_;
}

}  // namespace baton
