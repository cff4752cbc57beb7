// Channels to decode workers, one for each address.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/channel.h"

#include "common/rpc/credentials.h"

namespace baton {

// Thread-safe. Keeps the `capacity` channels used last; pushes under way keep theirs.
class ChannelCache {
 public:
  explicit ChannelCache(Credentials credentials, size_t capacity = 64)
      : credentials_(std::move(credentials)), capacity_(capacity) {}

  // INVALID_ARGUMENT where `address` is no host:port, PERMISSION_DENIED where plain text may not go
  // there.
  absl::StatusOr<std::shared_ptr<grpc::Channel>> Get(const std::string& address);
  // The next Get makes a new connection.
  void Drop(const std::string& address);
  size_t size() const;

 private:
  struct Entry {
    std::string address;
    std::shared_ptr<grpc::Channel> channel;
  };
  const Credentials credentials_;
  const size_t capacity_;
  mutable absl::Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // used last first
};

}  // namespace baton
