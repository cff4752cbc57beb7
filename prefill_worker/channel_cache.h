// Keeps channels to decode workers, several connections for each address.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "grpcpp/channel.h"

#include "common/certificates/credentials.h"

namespace baton {

// Thread-safe. Keeps the channels of the `capacity` addresses used last. A push under way keeps its
// channels even when the cache drops them.
class ChannelCache {
 public:
  using Channels = std::vector<std::shared_ptr<grpc::Channel>>;
  struct Options {
    Credentials credentials;
    int connections = 1;   // connections to each address
    size_t capacity = 64;  // addresses that are kept
  };
  explicit ChannelCache(Options options) : options_(std::move(options)) {}

  // Returns `connections` channels, each with a TCP connection of its own that is made when it is
  // first used. When certificates or revocation lists have changed, or when the channels to a name
  // cannot connect, the channels are new ones.
  // INVALID_ARGUMENT if `address` is no host:port, PERMISSION_DENIED if plain text may not go
  // there.
  absl::StatusOr<Channels> Get(const std::string& address);
  // Forgets the address's channels, so that the next Get makes new connections.
  void Drop(const std::string& address);
  size_t size() const;  // number of addresses

 private:
  struct Entry {
    std::string address;
    uint64_t changes = 0;  // Credentials::changes() when the channels were made
    Channels channels;
  };
  const Options options_;
  mutable absl::Mutex mutex_;
  std::list<Entry> entries_ ABSL_GUARDED_BY(mutex_);  // most recently used first
};

}  // namespace baton
