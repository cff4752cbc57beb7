// The tenants and keys that the router knows, as the file of --api-keys says now.
#pragma once

#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/base/periodic_thread.h"
#include "common/net/metrics.h"
#include "router/tenants/keys_file.h"

namespace baton {

// Thread-safe. A thread of its own reads the file again and again, so a key that is added or
// revoked counts within two seconds. A file that is wrong changes nothing: the last good one stays,
// one line of the log says why, and a gauge of the metrics is 1 until the file is good again. A line
// also says so if other users may read or write a file that is taken.
class ApiKeys {
 public:
  struct Holder {
    std::string key_id;
    std::string tenant;
    bool revoked = false;  // the key counts no more
  };

  // INVALID_ARGUMENT when the file is wrong now. Borrows `metrics`.
  static absl::StatusOr<std::unique_ptr<ApiKeys>> Load(const std::string& path, Metrics& metrics,
                                                       absl::Duration interval = absl::Seconds(1));

  // Who holds `key`, or held it. UNAUTHENTICATED with a reason of ErrorInfo: it is no key, or
  // unknown.
  // How long it takes tells nothing of other keys: they are found by their public ids, and their
  // hashes are compared in constant time.
  absl::StatusOr<Holder> Find(absl::string_view key) const;
  // What the file says of the tenant; none: it says nothing.
  std::optional<Tenant> FindTenant(const std::string& name) const;

 private:
  struct Table {
    KeysFile file;
    absl::flat_hash_map<std::string, ApiKeyEntry> keys;  // by id
  };

  ApiKeys(std::string path, std::string text, std::unique_ptr<const Table> table)
      : path_(std::move(path)), text_(std::move(text)), table_(std::move(table)) {}
  static absl::StatusOr<std::unique_ptr<const Table>> Parse(
      const std::string& path, const absl::StatusOr<std::string>& text);
  void Reload();

  const std::string path_;
  // Of the thread below only: the file's content when it was last looked at (none: it could not be
  // read), and what was wrong with it.
  std::optional<std::string> text_;
  std::string problem_;
  mutable absl::Mutex mutex_;
  std::unique_ptr<const Table> table_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<std::atomic<double>> stale_;  // 1: the file is wrong
  std::optional<PeriodicThread> thread_;        // the last member: it uses the others
};

}  // namespace baton
