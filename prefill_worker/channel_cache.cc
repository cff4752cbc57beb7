#include "prefill_worker/channel_cache.h"

#include <algorithm>
#include <utility>

#include "common/rpc/address.h"
#include "common/rpc/channel.h"
#include "common/rpc/status.h"

namespace baton {

absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelCache::Get(const std::string& address) {
  if (absl::StatusOr<HostPort> parsed = ParseHostPort(address); !parsed.ok()) {
    return InvalidField("decode_address", std::string(parsed.status().message()));
  }
  absl::MutexLock lock(&mutex_);
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.address == address; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front().channel;
  }
  absl::StatusOr<std::shared_ptr<grpc::Channel>> channel =
      MakeChannel(address, credentials_, ChannelPurpose::kBulk);
  if (!channel.ok()) return channel;
  entries_.push_front({address, *channel});
  if (entries_.size() > capacity_) entries_.pop_back();
  return channel;
}

void ChannelCache::Drop(const std::string& address) {
  absl::MutexLock lock(&mutex_);
  entries_.remove_if([&](const Entry& entry) { return entry.address == address; });
}

size_t ChannelCache::size() const {
  absl::MutexLock lock(&mutex_);
  return entries_.size();
}

}  // namespace baton
