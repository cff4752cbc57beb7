// Decides when replaced files are read.
#pragma once

#include <optional>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace baton {

// `Texts` is what the files hold. Not thread-safe; to be called repeatedly.
template <typename Texts>
class FollowedFiles {
 public:
  explicit FollowedFiles(Texts taken) : taken_(std::move(taken)), seen_(taken_) {}

  // Returns the present contents of the files. When that has changed and was the same at the last
  // look, so that no writer is active, `take` is asked to use it, and if it cannot, is asked again
  // at the next look. Returns what came of it; nullopt when that is not new.
  template <typename Take>
  std::optional<absl::Status> Look(absl::StatusOr<Texts> found, const Take& take) {
    if (found.ok() && *found == taken_) {
      seen_ = std::move(found);
      refusal_.clear();
      return std::nullopt;
    }
    const bool settled =
        found.ok() ? seen_.ok() && *seen_ == *found : seen_.status() == found.status();
    seen_ = std::move(found);
    if (!settled) {
      refusal_.clear();
      return std::nullopt;
    }
    const absl::Status status = seen_.ok() ? take(*seen_) : seen_.status();
    if (status.ok()) {
      taken_ = *seen_;
      return status;
    }
    if (refusal_ == status.message()) return std::nullopt;
    refusal_ = std::string(status.message());
    return status;
  }

 private:
  Texts taken_;                 // what is in use
  absl::StatusOr<Texts> seen_;  // what the last look found
  std::string refusal_;         // why that was refused; empty: it was not
};

}  // namespace baton
