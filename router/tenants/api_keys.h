// The tenants and keys that the router knows, as the files of --api-keys and --serve-key-file have
// them now.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

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

// Thread-safe. A thread of its own reads the files again and again, so a key that is added or
// revoked counts within two seconds. A file that is wrong changes nothing: the last good one stays,
// one line of the log says why, and a gauge of the metrics is 1 until the file is good again. A
// line also says so if other users may read or write a file that is taken. Only hashes of the keys
// are kept. If both files have a key or a tenant, the entry of --api-keys counts.
class ApiKeys {
 public:
  // The paths of both files; empty: there is none.
  struct Files {
    std::string api_keys{};    // keys_file.h
    std::string serve_keys{};  // serve_keys.h
  };
  struct Holder {
    std::string key_id;
    std::string tenant;
    bool revoked = false;  // the key counts no more
  };

  // INVALID_ARGUMENT names flag, file and line when a file is wrong now. Borrows `metrics`.
  static absl::StatusOr<std::unique_ptr<ApiKeys>> Load(const Files& files, Metrics& metrics,
                                                       absl::Duration interval = absl::Seconds(1));
  // The same with --api-keys alone.
  static absl::StatusOr<std::unique_ptr<ApiKeys>> Load(const std::string& path, Metrics& metrics,
                                                       absl::Duration interval = absl::Seconds(1)) {
    return Load(Files{.api_keys = path}, metrics, interval);
  }

  // Who holds `key`, or held it. UNAUTHENTICATED with a reason of ErrorInfo: it is no key, or
  // unknown.
  // Its time reveals nothing about other keys: they are found by their public ids, and their
  // hashes are compared in constant time.
  absl::StatusOr<Holder> Find(absl::string_view key) const;
  // The limits that the files declare for the tenant. None if they do not declare it.
  std::optional<Tenant> FindTenant(const std::string& name) const;

 private:
  // One of the files, and how it is read.
  struct Source {
    const char* flag;
    std::string path;
    absl::StatusOr<std::string> (*read)(const std::string& path);
    absl::StatusOr<KeysFile> (*parse)(const std::string& path, const std::string& content);
    // SHA-256 of the content when it was last looked at. None: it could not be read.
    std::optional<std::string> digest{};
    std::string problem{};  // what was wrong then
    KeysFile good{};        // the last content that was right
  };
  struct Table {
    std::map<std::string, Tenant> tenants;               // by name
    absl::flat_hash_map<std::string, ApiKeyEntry> keys;  // by id
  };

  explicit ApiKeys(std::vector<Source> sources)
      : sources_(std::move(sources)), table_(Merge(sources_)) {}
  // Looks at the file. Returns whether `good` is new, or what is wrong with the file if it has
  // changed.
  static absl::StatusOr<bool> Look(Source& source);
  static std::unique_ptr<const Table> Merge(const std::vector<Source>& sources);
  void Reload();

  std::vector<Source> sources_;  // used only by the thread below once it runs
  mutable absl::Mutex mutex_;
  std::unique_ptr<const Table> table_ ABSL_GUARDED_BY(mutex_);
  std::shared_ptr<std::atomic<double>> stale_;  // 1: a file is wrong
  std::optional<PeriodicThread> thread_;        // the last member: it uses the others
};

}  // namespace baton
