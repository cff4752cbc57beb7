// Whether one worker is reached, and what the log says of it if it is not.
#pragma once

#include <array>
#include <optional>
#include <string>

#include "absl/time/time.h"

#include "router/fleet/unreachable_reason.h"

namespace baton {

// Pure; not thread-safe. Times are those of the registry's loop.
class Reachability {
 public:
  // A worker may be unreached for this long before the log says so: it may just be starting.
  static constexpr absl::Duration kGrace = absl::Seconds(2);
  // A worker that never sent anything counts as silent after this time on one open stream.
  static constexpr absl::Duration kSilentAfter = absl::Seconds(5);
  // Time between two log lines with the same reason, while other reasons lie between them or not.
  static constexpr absl::Duration kRepeatAfter = absl::Minutes(5);
  static constexpr absl::Duration kReturnAfter = absl::Seconds(30);

  // A stream to the worker was opened.
  void Opened(absl::Time now);
  // The stream has ended, or could not be opened.
  void Ended(UnreachableReason reason, absl::Time now);
  // The worker sent a message.
  void Heard();
  // The worker answers and is never used, and the log has just said why. Empty: it may be used.
  void Refused(std::string why, absl::Time now);

  // When the open stream was opened; infinitely late if none is open, or if it brought a message.
  absl::Time opened() const { return opened_; }
  // Why the worker is not reached. Empty if it is reached, or if no attempt has ended yet.
  const std::string& why() const { return why_.text; }
  // Returns the predicate of the log line that is due now ("is not reached: ..."), if there is one.
  // To be called several times a second.
  std::optional<std::string> TakeLine(absl::Time now);

 private:
  std::optional<std::string> TakeRefusal(absl::Time now);

  UnreachableReason why_;                                // the text is empty while there is none
  absl::Time opened_ = absl::InfiniteFuture();           // when the open stream was opened
  absl::Time unreached_since_ = absl::InfiniteFuture();  // infinite: the worker is reached
  std::optional<UnreachableKind> last_logged_;
  std::array<absl::Time, kUnreachableKinds> logged_ = NeverLogged();
  std::string refusal_;
  absl::Time refusal_logged_ = absl::InfinitePast();

  static std::array<absl::Time, kUnreachableKinds> NeverLogged();
};

}  // namespace baton
