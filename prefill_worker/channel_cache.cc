#include "prefill_worker/channel_cache.h"

#include <algorithm>
#include <utility>

#include "common/base/address.h"
#include "common/base/numeric_address.h"
#include "common/base/status_macros.h"
#include "common/net/channel.h"
#include "common/rpc/status.h"

namespace baton {
namespace {

// Whether the channels lead to a name and cannot connect. If a name does not exist for a while,
// gRPC waits up to two minutes before it looks the name up again; new channels look it up at once.
bool CannotConnectToName(const std::string& host, const ChannelCache::Channels& channels) {
  if (ParseNumericAddress(host).has_value()) return false;
  return std::any_of(channels.begin(), channels.end(), [](const auto& channel) {
    return channel->GetState(/*try_to_connect=*/false) == GRPC_CHANNEL_TRANSIENT_FAILURE;
  });
}

}  // namespace

absl::StatusOr<ChannelCache::Channels> ChannelCache::Get(const std::string& address) {
  const absl::StatusOr<HostPort> parsed = ParseHostPort(address);
  if (!parsed.ok()) {
    return InvalidField("decode_address", std::string(parsed.status().message()));
  }
  const uint64_t changes = options_.credentials.changes();
  absl::MutexLock lock(&mutex_);
  entries_.remove_if([&](const Entry& entry) {
    return entry.changes != changes ||
           (entry.address == address && CannotConnectToName(parsed->host, entry.channels));
  });
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [&](const Entry& entry) { return entry.address == address; });
  if (found != entries_.end()) {
    entries_.splice(entries_.begin(), entries_, found);
    return entries_.front().channels;
  }
  Channels channels;
  for (int i = 0; i < options_.connections; ++i) {
    BATON_ASSIGN_OR_RETURN(auto channel,
                           MakeChannel(address, options_.credentials, ChannelPurpose::kBulk));
    channels.push_back(std::move(channel));
  }
  entries_.push_front({address, changes, channels});
  if (entries_.size() > options_.capacity) entries_.pop_back();
  return channels;
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
