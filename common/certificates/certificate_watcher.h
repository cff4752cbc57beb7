// Follows the certificate files of a process and gives gRPC only what is right.
//
// gRPC's own watcher takes whatever it finds, so that a certificate replaced before its key would
// break every handshake. This one takes files that have been the same twice and belong together,
// and otherwise keeps the last good ones. It hands them to gRPC in files that exist in memory only.
// It follows the revocation lists by the same rules, but apart, so that neither waits for the
// other.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"

#include "common/base/periodic_thread.h"
#include "common/certificates/certificate_files.h"
#include "common/certificates/followed_files.h"
#include "common/certificates/peer_trust.h"
#include "common/certificates/tls_flags.h"

namespace baton {

// A file in memory whose path stays the same while its contents are replaced as a whole. Not
// thread-safe; another thread may read the path at any time. The descriptor is never closed, since
// gRPC reads the path until its last channel is gone, which is after the owner's end.
class MemoryFile {
 public:
  // RESOURCE_EXHAUSTED without a descriptor or memory; the former contents stay.
  absl::Status Replace(const std::string& contents);
  std::string path() const;  // REQUIRES: Replace has succeeded

 private:
  int descriptor_ = -1;
  // Counts the contents, and is the file's time in seconds: by it gRPC notices contents that change
  // between its two looks.
  int64_t version_ = 0;
};

// Thread-safe. Its own thread looks at the files every `poll`.
class CertificateWatcher {
 public:
  struct State {
    CertificateFacts facts;  // facts about the certificates in use
    absl::Time lists_end =
        absl::InfiniteFuture();   // when the first of the lists in use is outdated
    uint64_t reloads = 0;         // times that renewed files were taken
    uint64_t failed_reloads = 0;  // times that changed files were refused
  };

  // Reads and checks the files for the first time. INVALID_ARGUMENT names the flag, the file and
  // the remedy.
  static absl::StatusOr<std::unique_ptr<CertificateWatcher>> Start(const TlsFlags& tls,
                                                                   absl::Duration poll);
  CertificateWatcher(const CertificateWatcher&) = delete;
  CertificateWatcher& operator=(const CertificateWatcher&) = delete;

  // Paths for gRPC: of the key with the certificate chain, which is empty if this process has
  // none, and of the authorities, which is empty if --tls-ca may be left out and is.
  std::string identity_path() const { return tls_.own_certificate() ? identity_.path() : ""; }
  std::string roots_path() const { return tls_.uses_ca() ? roots_.path() : ""; }
  State state() const;
  // What counts beside the certificates. (It is shared with gRPC, which may outlive the watcher.)
  std::shared_ptr<const PeerTrust> trust() const { return trust_; }

 private:
  explicit CertificateWatcher(const TlsFlags& tls) : tls_(tls) {}
  // Gives `texts` to gRPC.
  absl::Status Publish(const CertificateTexts& texts, const CertificateFacts& facts);
  // Checks the lists, and lets them count.
  absl::Status PublishLists(const std::string& text);
  // Checks and publishes changed certificates.
  absl::Status Reload(const CertificateTexts& texts);
  void Look();
  void LookAtLists();
  // Logs and counts what came of changed files.
  void Tell(const absl::Status& status, const char* what, absl::Time end);

  const TlsFlags tls_;
  const std::shared_ptr<PeerTrust> trust_ = std::make_shared<PeerTrust>();
  // The following belong to Start, and then to the thread.
  MemoryFile identity_;
  MemoryFile roots_;
  std::optional<FollowedFiles<CertificateTexts>> certificates_;
  std::optional<FollowedFiles<std::string>> lists_;
  bool lists_outdated_ = false;  // whether the log says so already
  mutable absl::Mutex mutex_;
  State state_ ABSL_GUARDED_BY(mutex_);
  std::optional<PeriodicThread> thread_;  // the last member: it uses the others
};

}  // namespace baton
