// Collects the facts of one request for the access log.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "router/access_log/access_log.h"

namespace baton {

// Shared by everything that works on the request: the connection or call that it came by, and the
// runner of each of its prompts. When the last of them lets it go, the request has ended for all of
// them, and its line is added to the log. Thread-safe.
class AccessEntry {
 public:
  struct Options {
    std::string route{};
    std::string unanswered{};  // the status if the client leaves before an answer
    bool only_errors = false;  // a request that succeeds has no line
  };
  // `received`: by the steady clock. Null if `log` is null. Borrows `log`.
  static std::shared_ptr<AccessEntry> Begin(AccessLog* log, Options options, absl::Time received);
  // Use Begin.
  AccessEntry(AccessLog& log, Options options, absl::Time received);
  ~AccessEntry();
  AccessEntry(const AccessEntry&) = delete;
  AccessEntry& operator=(const AccessEntry&) = delete;

  // The request's id; empty before SetId, which keeps at most kMaxNameBytes of it.
  std::string id() const;
  void SetId(absl::string_view id);
  // The caller is known. `shown`: by a valid key or certificate.
  void Identified(const std::string& tenant, bool shown);
  // Adds the work for one prompt.
  void Worked(const AccessWork& work);
  // The request, or one of its prompts, has failed. The first failure counts.
  void Failed(const absl::Status& status);
  // The answer: an HTTP status, or that of a gRPC call, whose error counts as Failed.
  void Answered(int http_status);
  void Answered(const absl::Status& status);
  // The whole answer was taken by the system, or the client has left; `now`: the steady clock. The
  // time until then is the line's total.
  void Ended(absl::Time now);

 private:
  AccessLog& log_;
  const Options options_;
  const absl::Time received_;
  mutable absl::Mutex mutex_;
  AccessRecord record_ ABSL_GUARDED_BY(mutex_);
  bool refused_ ABSL_GUARDED_BY(mutex_) = false;  // the HTTP status is that of an error
  std::optional<absl::Time> ended_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
